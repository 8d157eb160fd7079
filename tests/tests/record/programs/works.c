/* Works until a file appears, and says how often something failed that cannot fail:

   works STOP-FILE RESULT-FILE

   Each round reads, opens, allocates, computes, starts a thread and a child. The result file gets a line for each round,
   and at the end `done` with the number of failures. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int failures;

static void check(int is_well) { failures += !is_well; }

__attribute__((noinline)) int probed(int number) {
    __asm__ volatile("" : "+r"(number));
    return number + 1;
}

static void *in_thread(void *number) {
    char byte;
    int file = open("/dev/zero", O_RDONLY);
    check(file >= 0);
    for (int turn = 0; turn < 50; turn++) check(read(file, &byte, 1) == 1);
    close(file);
    return number;
}

static void round_of_work(int zero) {
    char byte;
    for (int turn = 0; turn < 500; turn++) {
        check(read(zero, &byte, 1) == 1);
        void *block = malloc(64 + turn);
        check(block != NULL && probed(turn) == turn + 1);
        free(block);
    }
    pthread_t thread;
    check(pthread_create(&thread, NULL, in_thread, NULL) == 0);
    check(pthread_join(thread, NULL) == 0);
    pid_t child = fork();
    if (child == 0) {
        in_thread(NULL);
        _exit(failures ? 9 : 0);
    }
    int status = -1;
    check(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

int main(int words, char **arguments) {
    if (words != 3) return 2;
    int zero = open("/dev/zero", O_RDONLY), result = open(arguments[2], O_CREAT | O_WRONLY | O_APPEND, 0666);
    check(zero >= 0);
    struct stat about;
    do {
        round_of_work(zero);
        check(write(result, "round\n", 6) == 6);
        /* The test has failed and removed its folder: nobody will make the file. */
        if (fstat(result, &about) || about.st_nlink == 0) return 3;
    } while (access(arguments[1], F_OK) != 0);
    dprintf(result, "done %d\n", failures);
    return failures != 0;
}
