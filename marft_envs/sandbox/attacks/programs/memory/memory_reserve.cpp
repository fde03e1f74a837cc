// Address space without pages: the goal is 1 TiB.
#include <cstdio>
#include <sys/mman.h>
int main() {
    long total = 0;
    while (total < 1L << 40) {
        if (mmap(nullptr, 1L << 30, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == MAP_FAILED) break;
        total += 1L << 30;
    }
    printf("%s %ld\n", total >= 1L << 40 ? "REACHED" : "contained", total);
}
