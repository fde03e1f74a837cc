// Pin memory so that it can't be swapped; the goal is 1 MiB.
#include <cstdio>
#include <sys/mman.h>
static char block[1 << 20];
int main() {
    bool one = mlock(block, sizeof block) == 0;
    bool all = mlockall(MCL_CURRENT | MCL_FUTURE) == 0;
    puts(one || all ? "REACHED locked memory" : "contained");
}
