// A huge page of which all but 4 KiB is unmapped stays whole. The goal is the memory limit, twice.
#include <cstdint>
#include <cstdio>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
static const long HUGE = 2 << 20;
static long faults() {
    rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_minflt;
}
int main() {
    long total = 0;
    for (int i = 0; i < 64; ++i) {
        char *room = (char *)mmap(nullptr, 2 * HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (room == MAP_FAILED) break;
        char *page = (char *)(((uintptr_t)room + HUGE - 1) & ~(uintptr_t)(HUGE - 1));
        madvise(page, HUGE, MADV_HUGEPAGE);
        long before = faults();
        for (long place = 0; place < HUGE; place += 4096) page[place] = 1;
        if (faults() - before < 64) total += HUGE;  // one fault for all of it
        if (page > room) munmap(room, page - room);
        munmap(page + 4096, room + 2 * HUGE - page - 4096);
    }
    usleep(200000);
    printf("%s %ld\n", total >= 128L << 20 ? "REACHED" : "contained", total);
}
