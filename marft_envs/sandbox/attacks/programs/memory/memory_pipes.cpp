// Memory in pipes and socket pairs: the goal is the whole memory limit in the kernel's buffers.
#include <cstdio>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>
static char block[1 << 16];
int main() {
    long total = 0;
    int ends[2];
    for (int i = 0; i < 4000; ++i) {
        if (i % 2 ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : pipe(ends)) break;
        fcntl(ends[1], 1031, 1 << 20);  // F_SETPIPE_SZ
        fcntl(ends[1], F_SETFL, O_NONBLOCK);
        for (long count; (count = write(ends[1], block, sizeof block)) > 0;) total += count;
    }
    printf("%s %ld\n", total >= 64L << 20 ? "REACHED" : "contained", total);
}
