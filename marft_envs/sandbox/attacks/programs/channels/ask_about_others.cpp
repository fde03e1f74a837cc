// Ask about other processes: their CPU time, groups, sessions, priorities, cores.
#include <cstdio>
#include <initializer_list>
#include <ctime>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
int main() {
    int number, host;
    if (scanf("%d %d", &number, &host) != 2) return 1;
    for (int pid : {getppid(), 1, host}) {
        timespec used;
        cpu_set_t cores;
        sched_param order;
        void *head;
        size_t size;
        for (int kind : {0, 1, 2})  // PROF, VIRT, SCHED
            if (clock_gettime((~pid << 3) | kind, &used) == 0) printf("REACHED the CPU time of %d\n", pid);
        if (getpgid(pid) >= 0 || getsid(pid) >= 0) printf("REACHED the session of %d\n", pid);
        if (syscall(SYS_getpriority, PRIO_PROCESS, pid) >= 0) printf("REACHED the priority of %d\n", pid);
        if (sched_getaffinity(pid, sizeof cores, &cores) >= 0) printf("REACHED the cores of %d\n", pid);
        if (sched_getscheduler(pid) >= 0 || sched_getparam(pid, &order) == 0 || sched_rr_get_interval(pid, &used) == 0)
            printf("REACHED the scheduling of %d\n", pid);
        if (syscall(SYS_get_robust_list, pid, &head, &size) == 0) printf("REACHED the futexes of %d\n", pid);
    }
    if (syscall(SYS_getpriority, PRIO_USER, 0) >= 0 || syscall(SYS_getpriority, PRIO_PGRP, getppid()) >= 0)
        puts("REACHED the priorities of others");
    puts("contained");
}
