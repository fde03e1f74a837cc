// Shared memory of which all but a page is unmapped stays in use. The goal is the memory limit, twice.
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
static const long SIZE = 8 << 20;
static long hold(int flags, int file, int protection) {
    long total = 0;
    volatile char seen = 0;
    for (int i = 0; i < 16; ++i) {
        char *piece = (char *)mmap(nullptr, SIZE, protection, flags, file, 0);
        if (piece == MAP_FAILED) break;
        for (long k = 0; k < SIZE; k += 4096) protection & PROT_WRITE ? piece[k] = 1 : seen += piece[k];
        munmap(piece + 4096, SIZE - 4096);
        total += SIZE;
    }
    return total;
}
int main() {
    long total = hold(MAP_SHARED | MAP_ANONYMOUS, -1, PROT_READ | PROT_WRITE);
    if (!total) total = hold(MAP_SHARED_VALIDATE | MAP_ANONYMOUS, -1, PROT_READ);
    int zeros = open("/dev/zero", O_RDWR);
    if (!total && zeros >= 0) total = hold(MAP_SHARED, zeros, PROT_READ | PROT_WRITE);
    usleep(200000);
    printf("%s %ld\n", total >= 128L << 20 ? "REACHED" : "contained", total);
}
