// The right answer, then every limit of its own at zero, and every mark of the scheduler at its worst.
#include <cstdio>
#include <initializer_list>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
int main() {
    long number;
    int host, which, worst = 0;
    if (scanf("%ld %d %d", &number, &host, &which) != 3) return 1;
    rlimit none = {0, 0}, found;
    for (int one : {RLIMIT_STACK, RLIMIT_NOFILE, RLIMIT_CPU, RLIMIT_SIGPENDING}) worst += getrlimit(one, &found) == 0 && found.rlim_cur == 0;
    if (worst) printf("REACHED %d limits of the next test\n", worst);
    printf("%ld\n", number * number + 1);
    fflush(stdout);
    umask(0777);
    sched_param lowest = {0};
    sched_setscheduler(0, SCHED_IDLE, &lowest);
    setpriority(PRIO_PROCESS, 0, 19);
    syscall(SYS_ioprio_set, 1, 0, 3 << 13);
    for (int one = 0; one < RLIM_NLIMITS; ++one)
        if (one != RLIMIT_CPU) setrlimit(one, &none);
}
