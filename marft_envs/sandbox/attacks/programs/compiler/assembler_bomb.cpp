// A terabyte that the assembler lays out.
asm(".data\n.rept 1000000\n.fill 1000000, 8, 1\n.endr");
int main() {}
