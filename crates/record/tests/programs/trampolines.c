// Calls each level of a recursion through generated code of its own, as Python does with -X perf, and tells the names in
// /tmp/perf-PID.map ("map") or in jit-PID.dump ("dump").
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { LEVELS = 20, STEP = 32, SIZE = 65536 };

static const unsigned char code[] = {
#if defined(__x86_64__)
    0x48, 0x83, 0xec, 0x08, // sub rsp, 8
    0xff, 0xd1,             // call rcx
    0x48, 0x83, 0xc4, 0x08, // add rsp, 8
    0xc3,                   // ret
#elif defined(__aarch64__)
    0xfd, 0x7b, 0xbf, 0xa9, // stp x29, x30, [sp, #-16]!
    0xfd, 0x03, 0x00, 0x91, // mov x29, sp
    0x60, 0x00, 0x3f, 0xd6, // blr x3
    0xfd, 0x7b, 0xc1, 0xa8, // ldp x29, x30, [sp], #16
    0xc0, 0x03, 0x5f, 0xd6, // ret
#endif
};

typedef long evaluator(long level, long rounds, long unused);
typedef long trampoline(long level, long rounds, long unused, evaluator *);

static unsigned char *memory;
volatile long sink;

__attribute__((noinline)) long evaluate(long level, long rounds, long unused) {
    if (level == LEVELS) {
        for (long i = 0; i < rounds; i++) sink += i;
        return sink;
    }
    trampoline *next = (trampoline *)(memory + level * STEP);
    return next(level + 1, rounds, unused, evaluate) + 1;
}

static void tell_map(void) {
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    FILE *map = fopen(path, "w");
    if (!map) _exit(1);
    for (int i = 0; i < LEVELS; i++)
        fprintf(map, "%lx %x py::level_%d:/a.py\n", (unsigned long)(memory + i * STEP), STEP, i);
    fclose(map);
}

static void tell_dump(void) {
    char path[64];
    snprintf(path, sizeof path, "jit-%d.dump", (int)getpid());
    int file = open(path, O_CREAT | O_TRUNC | O_RDWR, 0600);
    if (file < 0) _exit(1);
    uint32_t header[10] = {0x4A695444, 1, 40, 62, 0, (uint32_t)getpid()};
    if (write(file, header, sizeof header) != sizeof header) _exit(1);
    // The page shows recorders where the list is.
    if (mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0) == MAP_FAILED) _exit(1);
    for (int i = 0; i < LEVELS; i++) {
        char name[32];
        uint32_t length = (uint32_t)snprintf(name, sizeof name, "py::level_%d:/a.py", i) + 1;
        uint64_t start = (uint64_t)(memory + i * STEP);
        uint32_t head[6] = {0, 56 + length + STEP, 0, 0, (uint32_t)getpid(), (uint32_t)getpid()};
        uint64_t body[4] = {start, start, STEP, (uint64_t)i};
        if (write(file, head, sizeof head) < 0 || write(file, body, sizeof body) < 0) _exit(1);
        if (write(file, name, length) < 0 || write(file, memory + i * STEP, STEP) < 0) _exit(1);
    }
}

int main(int argc, char **argv) {
    memory = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 1;
    for (int i = 0; i < SIZE / STEP; i++) memcpy(memory + i * STEP, code, sizeof code);
    mprotect(memory, SIZE, PROT_READ | PROT_EXEC);
    __builtin___clear_cache((char *)memory, (char *)memory + SIZE);
    if (argc > 1 && !strcmp(argv[1], "dump")) tell_dump();
    else tell_map();
    // By its CPU time: on a quick machine, a fixed amount of work is too little to be sampled.
    while (clock() < CLOCKS_PER_SEC / 4) evaluate(0, 4000000, 0);
    return 0;
}
