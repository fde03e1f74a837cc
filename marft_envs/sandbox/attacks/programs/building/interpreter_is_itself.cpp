// A program whose loader is the program, and an executable stack.
#include <cstdio>
asm(".section .interp,\"a\"\n.string \"/proc/self/exe\"\n.section .note.GNU-stack,\"x\"\n.text");
int main() { puts("contained"); }
