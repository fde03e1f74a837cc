// Let the assembler's error messages read a file of the host aloud.
asm(".include \"@CANARY@\"");
int main() {}
