// Memory by ways that a limit may overlook: copies of files, stacks, droppable pages, moved maps; one a test. The goal is 192 MiB.
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
static const size_t SIZE = 192u << 20;
int main(int, char** words) {
    int number, host, which, file = -1, kind = MAP_PRIVATE | MAP_ANONYMOUS;
    if (scanf("%d %d %d", &number, &host, &which) != 3) return 1;
    if (which == 1) kind |= MAP_GROWSDOWN | MAP_STACK | MAP_NORESERVE;
    if (which == 2) kind |= MAP_HUGETLB;
    if (which == 3) kind = 0x08 | MAP_ANONYMOUS;  // MAP_DROPPABLE
    if (which == 4) kind = MAP_PRIVATE, file = open(words[0], O_RDONLY);
    if (which == 5) kind = MAP_SHARED, file = open("/dev/zero", O_RDWR);
    if (which == 6) kind = MAP_SHARED, file = syscall(447, 0);  // memfd_secret
    if (which == 7) kind = MAP_PRIVATE, file = 0;
    if (which == 6 && ftruncate(file, SIZE) != 0) file = -1;
    char* all = (char*)mmap(nullptr, SIZE, PROT_READ | PROT_WRITE, kind, file, 0);
    if (which == 8) {
        all = (char*)mmap(nullptr, 16 << 20, PROT_READ | PROT_WRITE, kind, -1, 0);
        for (int turn = 0; turn < 12 && all != MAP_FAILED; ++turn) {
            memset(all, 1, 16 << 20);
            all = (char*)mremap(all, 16 << 20, 16 << 20, MREMAP_MAYMOVE | 4);  // MREMAP_DONTUNMAP
        }
    } else if (all != MAP_FAILED) {
        madvise(all, SIZE, MADV_HUGEPAGE);
        memset(all, 1, SIZE);
    }
    puts(all == MAP_FAILED ? "contained" : "REACHED the memory");
}
