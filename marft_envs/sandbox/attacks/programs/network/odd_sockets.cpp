// Socket families that no namespace or firewall rule thinks of.
#include <cstdio>
#include <initializer_list>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
int main() {
    for (int family = 1; family < 46; ++family)
        for (int kind : {SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET}) {
            int made = socket(family, kind, 0);
            if (made >= 0) printf("REACHED family %d kind %d\n", family, kind), close(made);
        }
    int pair[2];
    if (socketpair(AF_VSOCK, SOCK_STREAM, 0, pair) == 0) puts("REACHED a vsock pair");
    puts("contained");
}
