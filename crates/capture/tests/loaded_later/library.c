/* What tests/loaded_later.rs loads, calls and unloads. Built twice, with another NUMBER each time. */

/* Computes: a leaf in the library. */
__attribute__((noinline)) unsigned long spin(unsigned long rounds) {
    unsigned long hash = NUMBER;
    for (unsigned long i = 0; i < rounds; i++) {
        hash = (hash ^ i) * 0x9e3779b97f4a7c15ul;
        __asm__ volatile("" : "+r"(hash));
    }
    return hash;
}

/* Calls back: the library is in the middle of the stack. */
__attribute__((noinline)) unsigned long call_back(unsigned long (*function)(unsigned long), unsigned long rounds) {
    unsigned long result = function(rounds);
    __asm__ volatile("" : "+r"(result));
    return result + NUMBER;
}
