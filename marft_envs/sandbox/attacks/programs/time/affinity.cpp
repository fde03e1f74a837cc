// Choose its own core: the neighbour's.
#include <cstdio>
#include <sched.h>
#include <unistd.h>
int main() {
    for (int core = 0; core < 256; ++core) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(core, &set);
        if (sched_setaffinity(0, sizeof set, &set) == 0) printf("REACHED core %d\n", core);
        if (core < 4 && sched_setaffinity(getppid(), sizeof set, &set) == 0) puts("REACHED the runner's core");
    }
    puts("contained");
}
