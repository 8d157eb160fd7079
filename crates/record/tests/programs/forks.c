// Eight children that each spend CPU time in `child_work`, and one that executes argv[1] with the rest.
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

__attribute__((noinline)) static uint64_t child_work(void) {
    uint64_t x = 1, start = cpu_nanos();
    while (cpu_nanos() - start < 40000000u)
        for (int i = 0; i < 20000; i++) {
            x = x * 6364136223846793005u + 1;
            __asm__ volatile("" : "+r"(x));
        }
    return x;
}

int main(int argc, char **argv) {
    for (int i = 0; i < 8; i++) {
        pid_t pid = fork();
        if (pid == 0) _exit((int)(child_work() & 1));
        printf("%d\n", (int)pid);
    }
    fflush(stdout);
    if (argc > 1 && fork() == 0) {
        execv(argv[1], argv + 1);
        _exit(127);
    }
    while (wait(0) > 0) {
    }
    return 7;
}
