// Memory in the files of stdin, stdout and stderr, past their ends and in holes: the goal is 64 MiB.
#include <cstdio>
#include <initializer_list>
#include <fcntl.h>
#include <linux/falloc.h>
#include <csignal>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
int main() {
    signal(SIGXFSZ, SIG_IGN);
    for (int one : {0, 1, 2})
        for (long size = 64L << 20; size <= 1L << 40; size <<= 4) {
            struct stat what = {};
            fallocate(one, FALLOC_FL_KEEP_SIZE, 0, size);
            fallocate(one, 0, size - 4096, 4096);
            fallocate(one, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, 0, size);
            fallocate(one, FALLOC_FL_INSERT_RANGE, 0, size);
            ftruncate(one, size);
            pwrite(one, "x", 1, size - 1);
            if (fstat(one, &what) == 0 && (what.st_blocks >= 131072 || what.st_size >= 64 << 20)) printf("REACHED %d\n", one);
        }
    ftruncate(1, 0);
    puts("contained");
}
