// Print the right answer, then die of SIGKILL, as where memory runs out.
#include <csignal>
#include <cstdio>
#include <unistd.h>
int main() {
    long number;
    if (scanf("%ld", &number) == 1) printf("%ld\n", number * number + 1);
    fflush(stdout);
    kill(getpid(), SIGKILL);
}
