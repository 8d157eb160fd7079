// A thread that is the first to call an allocation function, while the loader is busy: what others hold meanwhile must
// stay what it is. The library that keeps the loader busy is this source too, with LIBRARY.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef LIBRARY
extern volatile int loader_is_busy, loader_may_go_on;

__attribute__((constructor)) static void keep_busy(void) {
  loader_is_busy = 1;
  while (!loader_may_go_on) usleep(1000);
}
#else
volatile int loader_is_busy, loader_may_go_on, is_aligned;

static void *load(void *path) { return dlopen(path, RTLD_NOW); }

static void *align(void *unused) {
  void *block = NULL;
  int error = posix_memalign(&block, 64, 1000);
  is_aligned = 1;
  free(block);
  return error ? NULL : unused;
}

int main(int count, char **arguments) {
  char *text = malloc(100);
  strcpy(text, "what was written before");
  pthread_t loader, aligner;
  pthread_create(&loader, NULL, load, arguments[count - 1]);
  while (!loader_is_busy) usleep(1000);
  pthread_create(&aligner, NULL, align, arguments);
  // One that has to ask the loader does not come back before the loader is free.
  for (int wait = 0; wait < 300 && !is_aligned; wait++) usleep(1000);
  text = realloc(text, 5000);
  void *large = malloc(1 << 20);
  int is_sound = text && strcmp(text, "what was written before") == 0 && large;
  loader_may_go_on = 1;
  void *loaded, *aligned;
  pthread_join(aligner, &aligned);
  pthread_join(loader, &loaded);
  free(text);
  free(large);
  printf("%s\n", is_sound && loaded && aligned ? "sound" : "broken");
  return 0;
}
#endif
