/* Threads that live for a millisecond of CPU time each, one after another; prints their names, the CPU time of all in
   nanoseconds, and 0 if they began at any time between two ticks: ordinary threads mostly begin right after a tick,
   which took the CPU from another program; real-time threads do not wait for ticks. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>

static volatile unsigned long sum;
static long long used;

static long long cpu_nanos(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * 1000000000ll + time.tv_nsec;
}

__attribute__((noinline)) void brief(void) {
    while (cpu_nanos() < 1000000)
        for (int turn = 0; turn < 1000; turn++) sum += turn;
}

static void *in_thread(void *nothing) {
    brief();
    used += cpu_nanos();
    return nothing;
}

int main(void) {
    struct sched_param lowest = {.sched_priority = 1};
    int is_ordinary = sched_setscheduler(0, SCHED_FIFO, &lowest) != 0;
    for (int i = 0; i < 1500; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, in_thread, NULL)) return 1;
        pthread_join(thread, NULL);
    }
    printf("brief %lld %d\n", used, is_ordinary);
    return 0;
}
