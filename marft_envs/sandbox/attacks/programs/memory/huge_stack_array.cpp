// An array of a gigabyte on the stack.
#include <cstdio>
int main() {
    volatile char array[1 << 30];
    for (long i = (1 << 30) - 1; i >= 0; i -= 4096) array[i] = 1;
    printf("REACHED a gigabyte of stack %d\n", array[4095]);
}
