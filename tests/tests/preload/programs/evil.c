/* What an attacker would like to see loaded: says who loaded it. */
#include <fcntl.h>
#include <unistd.h>

__attribute__((constructor)) static void loaded(void) {
    int file = open(MARK, O_CREAT | O_WRONLY, 0666);
    close(file);
}
