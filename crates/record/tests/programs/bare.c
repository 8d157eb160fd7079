// A program without a C library, whose first function is assembly without unwind information, as musl's is.
#if defined(__x86_64__)
__asm__(".globl _start\n.type _start, @function\n_start:\n"
        "  xor %ebp, %ebp\n  and $-16, %rsp\n  call work\n"
        "  mov $60, %eax\n  xor %edi, %edi\n  syscall\n.size _start, .-_start\n");
#elif defined(__aarch64__)
__asm__(".globl _start\n.type _start, %function\n_start:\n"
        "  mov x29, #0\n  mov x30, #0\n  bl work\n"
        "  mov x8, #93\n  mov x0, #0\n  svc #0\n.size _start, .-_start\n");
#endif

volatile unsigned long sum;

__attribute__((noinline)) void spin(unsigned long times) {
    for (unsigned long i = 0; i < times; i++) sum += i;
    __asm__ volatile("");
}

void work(void) {
    for (int i = 0; i < 2000; i++) {
        spin(1000000);
        __asm__ volatile("");
    }
}
