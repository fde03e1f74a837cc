// Memory in page tables: a page in every gibibyte takes two tables of a page each. The goal is the memory limit.
#include <cstdio>
#include <sys/mman.h>
#include <unistd.h>
int main() {
    const long apart = 1L << 30, lowest = 1L << 32, highest = (1L << 47) - apart;
    long pages = 0;
    volatile char seen = 0;
    for (long start = lowest; start < lowest + apart; start += 2 << 20) {  // then one table a page
        for (long place = start; place < highest && pages < 25000; place += apart) {
            void *page = mmap((void *)place, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
            if (page == MAP_FAILED) {
                if (pages > 5000) start = place = highest;
                continue;
            }
            seen += *(char *)page;
            ++pages;
        }
        if (pages >= 25000) break;
    }
    usleep(300000);
    printf("%s %ld tables of 4 KiB\n", pages * 8 >= 64 << 10 ? "REACHED" : "contained", 2 * pages);
}
