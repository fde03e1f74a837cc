// Ask for what the whole machine has: free memory, load, free blocks, a counter of sockets.
#include <cstdio>
#include <initializer_list>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/sysinfo.h>
#include <unistd.h>
int main() {
    struct sysinfo machine;
    struct statfs disk;
    if (sysinfo(&machine) == 0) printf("REACHED %lu bytes free, %d tasks\n", machine.freeram, machine.procs);
    for (const char *place : {"/", "/usr", "/dev", "."})
        if (statfs(place, &disk) == 0) printf("REACHED %ld free blocks of %s\n", (long)disk.f_bfree, place);
    if (fstatfs(0, &disk) == 0) puts("REACHED fstatfs");
    int pair[2];
    unsigned long cookie;
    socklen_t size = sizeof cookie;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && getsockopt(pair[0], SOL_SOCKET, 57, &cookie, &size) == 0)
        printf("REACHED socket cookie %lu\n", cookie);
    puts("contained");
}
