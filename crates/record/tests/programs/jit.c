// Runs generated code under its own main, and tells its name in /tmp/perf-PID.map as JIT compilers do.
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int main(void) {
    static const unsigned char code[] = {
#if defined(__x86_64__)
        0x55,                   // push rbp
        0x48, 0x89, 0xe5,       // mov rbp, rsp
        0x89, 0xf9,             // mov ecx, edi
        0xff, 0xc9,             // dec ecx
        0x75, 0xfc,             // jnz -4
        0x5d,                   // pop rbp
        0xc3,                   // ret
#elif defined(__aarch64__)
        0xfd, 0x7b, 0xbf, 0xa9, // stp x29, x30, [sp, #-16]!
        0xfd, 0x03, 0x00, 0x91, // mov x29, sp
        0x00, 0x04, 0x00, 0x71, // subs w0, w0, #1
        0xe1, 0xff, 0xff, 0x54, // b.ne -4
        0xfd, 0x7b, 0xc1, 0xa8, // ldp x29, x30, [sp], #16
        0xc0, 0x03, 0x5f, 0xd6, // ret
#endif
    };
    void *page = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return 1;
    memcpy(page, code, sizeof code);
    __builtin___clear_cache((char *)page, (char *)page + sizeof code);
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    FILE *map = fopen(path, "w");
    if (!map) return 1;
    fprintf(map, "%lx %lx jitted_spin\n", (unsigned long)page, (unsigned long)sizeof code);
    fclose(map);
    void (*spin)(unsigned) = (void (*)(unsigned))page;
    for (int i = 0; i < 60; i++) {
        spin(10000000);
        __asm__ volatile("" ::: "memory");
    }
    return 0;
}
