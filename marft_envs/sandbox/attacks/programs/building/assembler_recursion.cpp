// A macro of the assembler that calls itself twice, and lines without end.
asm(".macro bomb\n.byte 1\nbomb\nbomb\n.endm\nbomb\n.rept 1000000000\n.rept 1000000000\nnop\n.endr\n.endr");
int main() {}
