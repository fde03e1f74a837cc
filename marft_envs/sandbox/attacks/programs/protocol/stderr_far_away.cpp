// A complaint far from the start of stderr: its tail is kept, not the way there.
#include <csignal>
#include <cstdio>
#include <unistd.h>
int main() {
    signal(SIGXFSZ, SIG_IGN);
    ftruncate(2, 1 << 20);
    for (long far = 1 << 16; far < 1L << 62; far *= 2) pwrite(2, "far", 3, far);
    lseek(2, 1 << 19, SEEK_SET);
    fputs("the end", stderr);
    puts("contained");
}
