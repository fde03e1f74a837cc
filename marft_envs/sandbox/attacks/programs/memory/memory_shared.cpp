// Shared anonymous memory: pages of no process in particular. The goal is 512 MiB.
#include <cstdio>
#include <cstring>
#include <sys/mman.h>
int main() {
    for (int i = 0; i < 512; ++i) {
        void* piece = mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (piece == MAP_FAILED) return printf("contained after %d MiB\n", i), 0;
        memset(piece, 1, 1 << 20);
    }
    puts("REACHED 512 MiB");
}
