// A program whose image can't be started: it asks for a loader that does not exist.
#include <cstdio>
asm(".section .interp,\"a\"\n.string \"/tmp/marft_left\"\n.text");
int main() { puts("contained"); }
