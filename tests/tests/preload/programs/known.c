/* Known counts, sizes, leaks and temporaries, by function. */
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((noinline)) char *kept(size_t size) {
    char *block = malloc(size);
    memset(block, 1, size);
    return block;
}

__attribute__((noinline)) void temporary(size_t size) {
    volatile char *block = malloc(size);
    block[0] = 1;
    free((void *)block);
}

__attribute__((noinline)) char *growing(void) {
    char *block = NULL;
    for (int step = 1; step <= 100; step++) block = realloc(block, step * 64);
    return block;
}

__attribute__((noinline)) void *zeroed(void) { return calloc(10, 33); }

__attribute__((noinline)) void aligned(void *blocks[3]) {
    if (posix_memalign(&blocks[0], 256, 777)) abort();
    blocks[1] = aligned_alloc(64, 640);
    blocks[2] = memalign(4096, 100);
}

static char *blocks[1000];

int main(int count, char **arguments) {
    for (int at = 0; at < 1000; at++) blocks[at] = kept(100 + at);
    for (int at = 0; at < 500; at++) temporary(40);
    char *grown = growing();
    void *others[4];
    others[3] = zeroed();
    aligned(others);
    for (int at = 0; at < 600; at++) free(blocks[at]);
    free(grown);
    for (int at = 0; at < 3; at++) free(others[at]);
    if (count > 1 && strcmp(arguments[1], "killed") == 0) kill(getpid(), SIGKILL);
    if (count > 1 && strcmp(arguments[1], "waits") == 0) {
        char byte;
        if (write(1, "ready\n", 6) != 6 || read(0, &byte, 1) != 1) return 1;
    }
    /* Without leaving main the compiler could drop it. */
    return others[3] == NULL ? 1 : 3;
}
