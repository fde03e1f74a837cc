// Programs (first test) and probes (second) in the kernel.
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>
int main() {
    int number, host, which;
    if (scanf("%d %d %d", &number, &host, &which) != 3) return 1;
    unsigned map[32] = {2, 4, 4, 1};  // BPF_MAP_TYPE_ARRAY
    if (which == 0 && syscall(SYS_bpf, 0, map, 72) >= 0) puts("REACHED bpf");
    perf_event_attr event;
    memset(&event, 0, sizeof event);
    event.size = sizeof event;
    event.type = PERF_TYPE_SOFTWARE;
    event.exclude_kernel = 1;
    for (int target : {0, getppid(), -1})
        if (which == 1 && syscall(SYS_perf_event_open, &event, target, target < 0 ? 0 : -1, -1, 0) >= 0) puts("REACHED perf");
    puts("contained");
}
