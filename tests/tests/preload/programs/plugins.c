/* Two libraries, one after the other; the second is loaded to where the first one was. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static void use(const char *path, const char *name) {
    void *library = dlopen(path, RTLD_NOW);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    void *(*allocate)(void) = (void *(*)(void))dlsym(library, name);
    for (int at = 0; at < 10; at++) allocate();
    printf("%p\n", (void *)allocate);
    dlclose(library);
}

int main(int count, char **arguments) {
    if (count != 3) return 2;
    use(arguments[1], "one");
    use(arguments[2], "two");
    return 0;
}
