// The right answer with a NUL byte glued to it: not the right answer.
#include <cstdio>
int main() {
    long number;
    if (scanf("%ld", &number) != 1) return 1;
    printf("%ld", number * number + 1);
    putchar(0);
}
