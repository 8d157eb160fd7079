/* Starts a command that may not use perf_event_open, as in most containers; or, built with other names, one on a file
   system that cannot give blocks in advance. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef FORBIDDEN
#define FORBIDDEN SYS_perf_event_open
#define ANSWER 1
#endif

int main(int count, char **arguments) {
    struct sock_filter filter[] = {
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, 0},
        {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, FORBIDDEN},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | ANSWER},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
    };
    struct sock_fprog program = {4, filter};
    if (count < 2 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 9;
    execv(arguments[1], arguments + 1);
    return 9;
}
