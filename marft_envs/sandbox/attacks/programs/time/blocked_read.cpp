// Read from a pipe that nobody writes to, all signals blocked.
#include <csignal>
#include <unistd.h>
int main() {
    int ends[2];
    char byte;
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, nullptr);
    if (pipe(ends)) return 1;
    return read(ends[0], &byte, 1) != 1;
}
