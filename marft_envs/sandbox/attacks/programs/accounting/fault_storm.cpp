// Burn the kernel's time in page faults: map, touch, drop.
#include <sys/mman.h>
int main() {
    for (;;) {
        char* piece = (char*)mmap(nullptr, 32 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (long at = 0; piece != MAP_FAILED && at < 32 << 20; at += 4096) piece[at] = 1;
        munmap(piece, 32 << 20);
    }
}
