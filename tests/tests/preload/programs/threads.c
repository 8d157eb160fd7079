/* Threads that allocate for each other: half of what a producer makes is freed by its consumer. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

enum { PAIRS = 4, BLOCKS = 20000, SIZE = 48 };

static void *passed[PAIRS][BLOCKS];

__attribute__((noinline)) void *produced(void) { return malloc(SIZE); }
__attribute__((noinline)) void short_lived(void) {
    void *volatile block = malloc(32);
    free(block);
}

static void *produce(void *pair) {
    void **blocks = passed[(long)pair];
    for (int at = 0; at < BLOCKS; at++) {
        short_lived();
        __atomic_store_n(&blocks[at], produced(), __ATOMIC_RELEASE);
    }
    return NULL;
}

static void *consume(void *pair) {
    void **blocks = passed[(long)pair];
    for (int at = 0; at < BLOCKS; at++) {
        void *block;
        while ((block = __atomic_load_n(&blocks[at], __ATOMIC_ACQUIRE)) == NULL) sched_yield();
        if (at % 2 == 0) free(block);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[2 * PAIRS];
    for (long pair = 0; pair < PAIRS; pair++) {
        pthread_create(&threads[2 * pair], NULL, produce, (void *)pair);
        pthread_create(&threads[2 * pair + 1], NULL, consume, (void *)pair);
    }
    for (int at = 0; at < 2 * PAIRS; at++) pthread_join(threads[at], NULL);

    return 0;
}
