/* Waits for ever, and allocates nothing. */
#include <unistd.h>

int main(void) {
    for (;;) pause();
}
