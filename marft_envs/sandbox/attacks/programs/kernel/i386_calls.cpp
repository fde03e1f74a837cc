// The 32-bit entry, whose numbers a 64-bit filter would misread: 2 is fork there.
#include <cstdio>
int main() {
    long result;
    asm volatile("int $0x80" : "=a"(result) : "a"(20L) : "r8", "r9", "r10", "r11", "memory");  // getpid
    if (result > 0) puts("REACHED a 32-bit call"), fflush(stdout);
    asm volatile("int $0x80" : "=a"(result) : "a"(2L) : "r8", "r9", "r10", "r11", "memory");  // fork
    if (result > 0) puts("REACHED a 32-bit fork");
}
