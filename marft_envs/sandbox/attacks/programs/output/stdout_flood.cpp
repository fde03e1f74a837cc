// Print without end, deaf to the signal that says it is too much.
#include <csignal>
#include <cstring>
#include <unistd.h>
static char block[1 << 16];
int main() {
    signal(SIGXFSZ, SIG_IGN);
    memset(block, 'x', sizeof block);
    for (;;)
        if (write(1, block, sizeof block) <= 0) return 0;
}
