// Let the kernel send the signal: a pipe whose owner for input events is the runner.
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>
int main() {
    for (int kind = 0; kind < 2; ++kind) {
        int ends[2];
        if (kind ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : pipe(ends)) continue;
        fcntl(ends[0], 10, SIGKILL);  // F_SETSIG
        fcntl(ends[0], F_SETOWN, getppid());
        fcntl(ends[0], F_SETFL, O_ASYNC | O_NONBLOCK);
        write(ends[1], "x", 1);
    }
    usleep(20000);
    puts("contained");
}
