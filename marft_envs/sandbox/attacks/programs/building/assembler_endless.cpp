// Let the assembler copy a device without an end.
asm(".section .rodata\n.incbin \"/dev/urandom\"\n.incbin \"/dev/zero\", 0, 0x7fffffffffff\n.text");
int main() {}
