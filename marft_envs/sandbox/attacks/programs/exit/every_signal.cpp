// The right answer, then death by each signal that ends a program, but for those that a limit sends; one a test.
#include <csignal>
#include <cstdio>
#include <sys/syscall.h>
#include <unistd.h>
int main() {
    static const int deadly[] = {1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 16, 26, 27, 29, 30, 32, 33, 34, 63, 64};
    long number;
    int host, which;
    if (scanf("%ld %d %d", &number, &host, &which) != 3) return 1;
    printf("%ld\n", number * number + 1);
    fflush(stdout);
    syscall(SYS_tgkill, getpid(), getpid(), deadly[which]);
}
