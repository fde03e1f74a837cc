// The right answer, then a fault of the processor; one a test.
#include <cstdio>
#include <sys/mman.h>
#include <unistd.h>
int main() {
    long number;
    int host, which;
    if (scanf("%ld %d %d", &number, &host, &which) != 3) return 1;
    printf("%ld\n", number * number + 1);
    fflush(stdout);
    if (which == 0) __builtin_trap();
    if (which == 1) asm volatile("int3");
    if (which == 2) asm volatile("xor %%edx, %%edx; mov $1, %%eax; xor %%ecx, %%ecx; div %%ecx" ::: "eax", "ecx", "edx");
    if (which == 3) asm volatile("hlt");
    if (which == 4) *((volatile char*)mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, 1, 0) + 4095) = 1, ftruncate(1, 0),
                    *((volatile char*)mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, 1, 0)) = 1;
    if (which == 5) asm volatile("movabs $0x8000000000000000, %%rax; mov (%%rax), %%rax" ::: "rax");
    if (which == 6) asm volatile("pushf; orl $0x100, (%rsp); popf; nop");
    if (which == 7) asm volatile("xor %rsp, %rsp; push %rax");
}
