// Read a bit from the page cache, or leave one there: what a program that saw hidden tests leaves, a later one finds.
#include <cstdio>
#include <fcntl.h>
#include <initializer_list>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
int main() {
    char letter;
    iovec part = {&letter, 1};
    unsigned char cached;
    int file = open("/proc/self/exe", O_RDONLY);
    if (file < 0) file = open("main", O_RDONLY);
    if (file < 0) file = open("/box/main", O_RDONLY);
    if (preadv2(file, &part, 1, 0, RWF_NOWAIT) == 1) puts("REACHED a question to the page cache");
    for (int flag : {0x1, 0x80})  // HIPRI, DONTCACHE
        if (preadv2(file, &part, 1, 0, flag) == 1) puts("REACHED a read past the page cache");
    void *text = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE, file, 0);
    if (text == MAP_FAILED) return puts("nothing to map"), 1;
    if (mincore(text, 4096, &cached) == 0) puts("REACHED mincore");
    if (syscall(SYS_readahead, file, 0L, 4096UL) == 0) puts("REACHED readahead");
    unsigned char counts[40];
    unsigned long range[2] = {0, 4096};
    if (syscall(451, file, range, counts, 0) == 0) puts("REACHED cachestat");
    puts("contained");
}
