// Data so aligned that the program grows by gigabytes of padding.
#include <cstdio>
alignas(1 << 28) static char first[64] = {1};
asm(".data\n.balign 0x40000000\n.byte 1\n.balign 0x40000000\n.byte 1\n.org 0x7fffffff\n.byte 1\n.text");
int main() { puts(first); }
