// Forks a hundred children, one after each moment of work under a frame larger than any dump. Only when all are there do
// they work, so that each is seen only if it is watched for as long as it lives.
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint64_t cpu_nanos(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

__attribute__((noinline)) static uint64_t work(uint64_t nanos) {
    uint64_t x = 1, start = cpu_nanos();
    while (cpu_nanos() - start < nanos)
        for (int i = 0; i < 2000; i++) {
            x = x * 6364136223846793005u + 1;
            __asm__ volatile("" : "+r"(x));
        }
    return x;
}

__attribute__((noinline)) static uint64_t work_far_down(uint64_t nanos) {
    volatile char large[200000];
    large[0] = large[sizeof large - 1] = 1;
    return work(nanos) + (uint64_t)large[0];
}

int main(void) {
    int go[2];
    if (pipe(go) != 0) return 1;
    for (int i = 0; i < 100; i++) {
        work_far_down(2000000u);
        pid_t pid = fork();
        if (pid == 0) {
            char byte;
            close(go[1]);
            (void)!read(go[0], &byte, 1);
            _exit((int)(work(12000000u) & 1));
        }
        printf("%d\n", (int)pid);
    }
    fflush(stdout);
    close(go[1]);
    while (wait(0) > 0) {
    }
    return 0;
}
