// Map memory and touch it until that fails, then touch the failure.
#include <cstring>
#include <sys/mman.h>
int main() {
    for (;;) memset(mmap(nullptr, 1 << 18, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1, 1 << 18);
}
