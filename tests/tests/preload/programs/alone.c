/* A program of one thread that does what only such a program may do. Ends with 0 if it could. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

int capset(void *header, const void *sets);

static volatile unsigned long sum;

static void spin(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    double end = time.tv_sec + time.tv_nsec / 1e9 + 0.3;
    do {
        for (int turn = 0; turn < 100000; turn++) sum += turn;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    } while (time.tv_sec + time.tv_nsec / 1e9 < end);
}

__attribute__((noinline)) static void work_before(void) {
    spin();
    sum++;
}

__attribute__((noinline)) static void work_after(void) {
    spin();
    sum++;
}

int main(void) {
    work_before();
    /* Changes nothing, but the kernel refuses it to a process with several threads, as it does new namespaces of users. */
    if (unshare(CLONE_THREAD)) return 2;
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct sets[2] = {{0, 0, 0}, {0, 0, 0}};
    if (capset(&header, sets)) return 3;
    /* A thread that still had capabilities could do it, and then the C library would end the program. */
    if (setgid(getgid() + 1) != -1 || errno != EPERM) return 4;
    work_after();
    return 0;
}
