// Split the address space into as many pieces as there may be, then end: taking them apart is the kernel's work.
#include <cstdio>
#include <sys/mman.h>
int main() {
    const size_t size = 80u << 20;
    char* all = (char*)mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    long count = 0;
    for (size_t at = 0; all != MAP_FAILED && at < size; at += 8192) count += mprotect(all + at, 4096, PROT_READ | PROT_WRITE) == 0;
    puts(count > 100000 ? "REACHED 100000 maps" : "contained");
}
