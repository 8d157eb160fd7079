// Four children, one after the other, that each ask for their parent a hundred times and open what is not there.
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    for (int i = 0; i < 4; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            for (int call = 0; call < 100; call++) syscall(SYS_getppid);
            (void)!openat(AT_FDCWD, "/no/such/file", O_RDONLY);
            _exit(0);
        }
        waitpid(pid, 0, 0);
    }
    return 7;
}
