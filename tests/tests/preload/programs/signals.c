/* A program that does with signals what programs do, under a recorder that must not change what happens. Ends with 0
   when everything was as without one. The first argument says what it does. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned long sum;
static volatile int taken;

static void spin(double seconds) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    double end = time.tv_sec + time.tv_nsec / 1e9 + seconds;
    do {
        for (int turn = 0; turn < 100000; turn++) sum += turn;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    } while (time.tv_sec + time.tv_nsec / 1e9 < end);
}

static void count(int number) { taken += number == SIGURG; }
static void give_up(int number) { _exit(100 + number); }

/* Blocks what daemons block, and takes each with sigwait. */
static int wait_for_signals(void) {
    static const int wanted[] = {SIGTERM, SIGUSR1, SIGHUP};
    sigset_t set;
    sigemptyset(&set);
    for (int at = 0; at < 3; at++) sigaddset(&set, wanted[at]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    for (int turn = 0; turn < 300; turn++) {
        int got = 0;
        kill(getpid(), wanted[turn % 3]);
        if (sigwait(&set, &got) || got != wanted[turn % 3]) return 2;
        if (turn % 30 == 0) spin(0.02);
    }
    return 0;
}

/* Blocks everything there is, and reads it as a file. */
static int read_signals(void) {
    sigset_t set;
    sigfillset(&set);
    sigprocmask(SIG_SETMASK, &set, NULL);
    int file = signalfd(-1, &set, SFD_NONBLOCK);
    struct signalfd_siginfo got;
    for (int turn = 0; turn < 30; turn++) {
        spin(0.02);
        kill(getpid(), SIGUSR2);
        if (read(file, &got, sizeof got) != sizeof got || got.ssi_signo != SIGUSR2) return 3;
        if (read(file, &got, sizeof got) >= 0) return 4;
    }
    return 0;
}

/* Puts every signal back to what ends a program, as one that starts another does; then is another. */
static int reset(char *self) {
    for (int number = 1; number < 65; number++) signal(number, SIG_DFL);
    spin(0.5);
    execl(self, self, "spin", (char *)NULL);
    return 5;
}

/* Has handlers of its own, as sort has for signals that would end it. */
static int handle(void) {
    struct sigaction action = {.sa_handler = give_up}, before;
    sigaction(SIGPROF, &action, NULL);
    sigaction(SIGVTALRM, &action, NULL);
    action.sa_handler = count;
    if (sigaction(SIGURG, &action, &before) || before.sa_handler != SIG_DFL) return 6;
    spin(0.3);
    for (int turn = 0; turn < 10; turn++) {
        raise(SIGURG);
        spin(0.01);
    }
    if (taken != 10) return 7;
    if (signal(SIGURG, SIG_IGN) != count) return 8;
    raise(SIGURG);
    return taken == 10 ? 0 : 9;
}

/* Is another program while its time is being counted. */
static int replace_itself(char *self, int left) {
    char number[16];
    if (left == 0) return 0;
    snprintf(number, sizeof number, "%d", left - 1);
    spin(0.01);
    execl(self, self, "replace", number, (char *)NULL);
    return 10;
}

int main(int words, char **arguments) {
    const char *what = words > 1 ? arguments[1] : "";
    if (!strcmp(what, "sigwait")) return wait_for_signals();
    if (!strcmp(what, "signalfd")) return read_signals();
    if (!strcmp(what, "reset")) return reset(arguments[0]);
    if (!strcmp(what, "handle")) return handle();
    if (!strcmp(what, "replace")) return replace_itself(arguments[0], words > 2 ? atoi(arguments[2]) : 100);
    spin(0.3);
    return 0;
}
