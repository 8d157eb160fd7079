/* A parent, a forked child that goes on allocating, and one that starts another program. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noinline)) void *of_parent(void) { return malloc(1000); }
__attribute__((noinline)) void *of_child(void) { return malloc(300); }

static void *blocks[100];

int main(int count, char **arguments) {
    for (int at = 0; at < 100; at++) blocks[at] = of_parent();
    pid_t child = fork();
    if (child == 0) {
        /* Its parent's blocks stay its parent's. */
        for (int at = 0; at < 50; at++) free(blocks[at]);
        void *volatile own = NULL;
        for (int at = 0; at < 200; at++) {
            own = of_child();
            if (at % 2 == 0) free(own);
        }
        _exit(0);
    }
    waitpid(child, NULL, 0);
    if (count > 1) {
        child = fork();
        if (child == 0) {
            execv(arguments[1], arguments + 1);
            _exit(1);
        }
        int status;
        waitpid(child, &status, 0);
        for (int at = 0; at < 10; at++) free(blocks[at]);
        return WEXITSTATUS(status);
    }
    return 0;
}
