// The right answer through pages that change afterwards: spliced, given away, sent, mapped; one way a test.
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>
int main() {
    long number;
    int host, which, ends[2];
    if (scanf("%ld %d %d", &number, &host, &which) != 3 || pipe(ends) != 0) return 1;
    char* page = (char*)mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int size = sprintf(page, "%ld\n", number * number + 1);
    iovec piece = {page, (size_t)size};
    if (which == 1) write(1, page, size);
    if (which == 0 || which == 2) vmsplice(ends[1], &piece, 1, which ? SPLICE_F_GIFT : 0);
    if (which == 0 || which == 2) splice(ends[0], nullptr, 1, nullptr, size, SPLICE_F_MOVE);
    if (which == 3) {
        write(ends[1], page, size);
        sendfile(1, ends[0], nullptr, size);
        copy_file_range(0, nullptr, 1, nullptr, size, 0);
    }
    memset(page, '6', size);
}
