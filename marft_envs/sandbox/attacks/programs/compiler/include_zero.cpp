// A header of zeros without an end, and the compiler's own stdin.
#include "/dev/zero"
#include "/dev/stdin"
int main() {}
