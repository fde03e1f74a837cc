// Sleep in a session and a group of its own, deaf to signals.
#include <csignal>
#include <sys/prctl.h>
#include <unistd.h>
int main() {
    setsid();
    setpgid(0, 0);
    prctl(PR_SET_DUMPABLE, 0);
    for (int one = 1; one <= 64; ++one) signal(one, SIG_IGN);
    for (;;) pause();
}
