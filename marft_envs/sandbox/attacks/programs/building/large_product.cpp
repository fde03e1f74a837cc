// A program of thirty megabytes: small to write, large to carry from the compiler's jail to its own.
#include <cstdio>
asm(".section .rodata\n.fill 30000000, 1, 7\n.text");
int main() { puts("contained"); }
