// An honest program: must be judged OK whatever ran before it.
#include <cstdio>
int main() {
    long number;
    if (scanf("%ld", &number) != 1) return 1;
    printf("%ld\n", number * number + 1);
}
