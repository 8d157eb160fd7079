/* A successful malloc and every free leave errno alone; whoever stands before them must too. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static int changed;

static void check(const char *what) {
    if (errno != 12345) changed = 1, fprintf(stderr, "%s changed errno to %d\n", what, errno);
    errno = 12345;
}

static void *allocate(int depth) {
    if (depth > 0) {
        void *block = allocate(depth - 1);
        __asm__ volatile("" : "+r"(block));
        return block;
    }
    void *block = malloc(100);
    check("malloc");
    return block;
}

static void *work(void *nothing) {
    errno = 12345;
    for (int turn = 0; turn < 20000; turn++) {
        /* Many different stacks, so that tables grow. */
        void *block = allocate(turn % 400);
        block = realloc(block, 1000 + turn);
        check("realloc");
        free(block);
        check("free");
        free(calloc(1, 1 << (turn % 20)));
        check("calloc");
    }
    return nothing;
}

int main(void) {
    pthread_t threads[4];
    errno = 12345;
    void *first = malloc(1);
    check("the first malloc");
    free(first);
    check("the first free");
    for (int at = 0; at < 4; at++) pthread_create(&threads[at], NULL, work, NULL);
    for (int at = 0; at < 4; at++) pthread_join(threads[at], NULL);
    work(NULL);
    puts(changed ? "changed" : "kept");
    return changed;
}
