// Line markers, file names and sections that reach for other folders.
#line 1 "../../../../../../tmp/marft_left.cpp"
#include <cstdio>
asm(".file \"/tmp/marft_left\"\n.section .drectve\n.ascii \"-o /tmp/marft_left\"\n.text");
int main() { puts(__FILE__); }
