// The right answer, and exit statuses of which the kernel keeps no bit: they are 0.
#include <cstdio>
#include <sys/syscall.h>
#include <unistd.h>
int main() {
    long number;
    if (scanf("%ld", &number) == 1) printf("%ld\n", number * number + 1);
    fflush(stdout);
    syscall(SYS_exit_group, 0x7fffff00);
}
