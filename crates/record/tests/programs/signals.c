// 40 processes and 40 threads, one after the other, 25 handled signals, and a thread that is blocked when the process ends.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t handled;

static void handle(int signal) { handled += signal == SIGUSR1; }

static void *nothing(void *unused) { return unused; }

static volatile pid_t blocked_id;

static void *block(void *unused) {
    blocked_id = gettid();
    pause();
    return unused;
}

// Whether the thread sleeps: it is in its last call then.
static int is_blocked(void) {
    char path[64], state = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)blocked_id);
    FILE *stat = fopen(path, "r");
    if (!stat) return 0;
    int found = fscanf(stat, "%*d (%*[^)]) %c", &state);
    fclose(stat);
    return found == 1 && state == 'S';
}

int main(void) {
    signal(SIGUSR1, handle);
    for (int i = 0; i < 40; i++) {
        pid_t pid = fork();
        if (pid == 0) _exit(0);
        waitpid(pid, 0, 0);
        pthread_t thread;
        pthread_create(&thread, 0, nothing, 0);
        pthread_join(thread, 0);
    }
    for (int i = 0; i < 25; i++) raise(SIGUSR1);
    pthread_t blocked;
    pthread_create(&blocked, 0, block, 0);
    while (!blocked_id || !is_blocked()) sched_yield();
    return handled == 25 ? 0 : 1;
}
