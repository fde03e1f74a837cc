// Work that the kernel does after the end: asynchronous writes, and the flushing of all of the host's files; one a test.
#include <cstdio>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <sys/syscall.h>
#include <unistd.h>
int main() {
    int number, host, which;
    aio_context_t context = 0;
    if (scanf("%d %d %d", &number, &host, &which) != 3) return 1;
    if (which == 0 && syscall(SYS_io_setup, 60000, &context) == 0) puts("REACHED asynchronous writes");
    if (which == 1 && syscall(SYS_sync) == 0) puts("REACHED the host's disks");
    if (which == 2 && syscall(SYS_syncfs, open("/", O_RDONLY)) == 0) puts("REACHED a disk");
    puts("contained");
}
