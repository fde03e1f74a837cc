// The right answer, then a deadly signal for its whole process group, and for the group it tries to join.
#include <csignal>
#include <cstdio>
#include <unistd.h>
int main() {
    long number;
    if (scanf("%ld", &number) == 1) printf("%ld\n", number * number + 1);
    fflush(stdout);
    if (setpgid(0, getpgid(getppid())) == 0 && getpgid(0) != getpid()) puts("REACHED the runner's group"), fflush(stdout);
    kill(0, SIGTERM);
}
