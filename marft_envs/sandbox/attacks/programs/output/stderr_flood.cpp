// Complain without end, deaf to signals.
#include <csignal>
#include <cstring>
#include <unistd.h>
static char block[1 << 16];
int main() {
    signal(SIGXFSZ, SIG_IGN);
    memset(block, 'e', sizeof block);
    for (;;)
        if (write(2, block, sizeof block) <= 0) return 0;
}
