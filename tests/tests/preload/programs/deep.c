// Uses up its address space, as far as it may have any, and then allocates from ever new stacks: a binary number of
// callers each.
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static void left(unsigned number, int depth);
static void right(unsigned number, int depth);

static void next(unsigned number, int depth) {
  if (depth == 0) {
    free(malloc(16));
  } else if (number & 1) {
    left(number >> 1, depth - 1);
  } else {
    right(number >> 1, depth - 1);
  }
  __asm__ volatile("");
}

__attribute__((noinline)) static void left(unsigned number, int depth) { next(number, depth); __asm__ volatile(""); }
__attribute__((noinline)) static void right(unsigned number, int depth) { next(number, depth); __asm__ volatile(""); }

int main(void) {
  free(malloc(16));
  next(1, 14);
  for (size_t size = 1 << 20; size >= 4096; size /= 2) {
    while (mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) {
    }
  }
  for (unsigned number = 0; number < 1 << 14; number++) next(number, 14);
  puts("done");
  return 0;
}
