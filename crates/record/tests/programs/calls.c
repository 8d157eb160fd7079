// 20,000 getppid calls from two functions (1 : 3), 500 failing opens. argv[1] repeats it.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((noinline)) static void rarely(void) {
    syscall(SYS_getppid);
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static void often(void) {
    for (int i = 0; i < 3; i++) syscall(SYS_getppid);
    __asm__ volatile("" ::: "memory");
}

int main(int argc, char **argv) {
    int repeats = argc > 1 ? atoi(argv[1]) : 1;
    for (int r = 0; r < repeats; r++) {
        for (int i = 0; i < 5000; i++) {
            rarely();
            often();
        }
        for (int i = 0; i < 500; i++) (void)!openat(AT_FDCWD, "/no/such/file", O_RDONLY);
    }
    return 0;
}
