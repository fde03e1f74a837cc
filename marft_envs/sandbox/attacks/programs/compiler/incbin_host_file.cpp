// Let the assembler copy a file of the host into the program.
#include <cstdio>
asm(".section .rodata\n.global secret\nsecret: .incbin \"@CANARY@\"\n.byte 0\n.text");
extern "C" const char secret[];
int main() { printf("REACHED %s\n", secret); }
