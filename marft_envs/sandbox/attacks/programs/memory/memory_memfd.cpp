// Memory in files without a name: no address space, no RSS. The goal is twice the memory limit.
#include <cstdio>
#include <cstring>
#include <csignal>
#include <sys/syscall.h>
#include <unistd.h>
static char page[1 << 16];
int main() {
    signal(SIGXFSZ, SIG_IGN);
    memset(page, 1, sizeof page);
    long total = 0;
    for (int i = 0; i < 2000 && total < 128L << 20; ++i) {
        int file = syscall(SYS_memfd_create, "marft_left", 0);
        if (file < 0) break;
        for (int k = 0; k < 1024; ++k) {
            long count = write(file, page, sizeof page);
            if (count <= 0) break;
            total += count;
        }
    }
    printf("%s %ld\n", total >= 128L << 20 ? "REACHED" : "contained", total);
}
