// Settings of a process that would fool whoever looks at it, or slow down its neighbours; one a test.
#include <cstdio>
#include <linux/prctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main() {
    int number, host, which;
    long done = -1;
    prctl_mm_map map = {};
    if (scanf("%d %d %d", &number, &host, &which) != 3) return 1;
    if (which == 0) done = prctl(62, 1, 0, 0, 0);  // PR_SCHED_CORE: a core that neighbours cannot share
    if (which == 1) done = prctl(62, 2, getppid(), 1, 0);
    if (which == 2) done = prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof map, 0);
    if (which == 3) done = prctl(PR_SET_MM, PR_SET_MM_EXE_FILE, 0, 0, 0);
    if (which == 4) done = prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0);
    if (which == 5) done = prctl(PR_SET_SECUREBITS, 1, 0, 0, 0);
    if (which == 6) done = prctl(PR_MCE_KILL, PR_MCE_KILL_SET, PR_MCE_KILL_LATE, 0, 0);
    if (which == 7) done = prctl(PR_TASK_PERF_EVENTS_ENABLE, 0, 0, 0, 0);
    if (which == 8) done = syscall(SYS_get_robust_list, getppid(), &map, &map + 1);
    puts(done >= 0 ? "REACHED it" : "contained");
}
