// The right answer, and a null pointer.
#include <cstdio>
int main() {
    long number;
    if (scanf("%ld", &number) != 1) return 1;
    printf("%ld\n", number * number + 1);
    fflush(stdout);
    *(volatile int*)nullptr = 1;
}
