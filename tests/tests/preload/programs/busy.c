/* Half a second of CPU time in each of: the parent, a forked child, a program that is started, a thread. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned long sum;

static double cpu_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void spin(double seconds) {
    double end = cpu_seconds() + seconds;
    while (cpu_seconds() < end)
        for (int turn = 0; turn < 100000; turn++) sum += turn;
}

__attribute__((noinline)) void busy_parent(void) { spin(0.5); sum++; }
__attribute__((noinline)) void busy_child(void) { spin(0.5); sum++; }
__attribute__((noinline)) void busy_started(void) { spin(0.5); sum++; }
__attribute__((noinline)) void *busy_thread(void *nothing) { spin(0.5); sum++; return nothing; }

static void started(const char *self, char *const arguments[], void (*work)(void)) {
    pid_t child = fork();
    if (child == 0 && work) {
        work();
        exit(0);
    }
    if (child == 0) {
        execv(self, arguments);
        _exit(9);
    }
    waitpid(child, NULL, 0);
}

int main(int count, char **arguments) {
    if (count > 1 && strcmp(arguments[1], "started") == 0) {
        busy_started();
        return 0;
    }
    if (count > 1 && strcmp(arguments[1], "killed") == 0) {
        spin(2.5);
        kill(getpid(), SIGKILL);
    }
    char *const words[] = {arguments[0], "started", NULL};
    started(arguments[0], words, NULL);
    started(NULL, NULL, busy_child);
    pthread_t thread;
    pthread_create(&thread, NULL, busy_thread, NULL);
    pthread_join(thread, NULL);
    busy_parent();
    return 4;
}
