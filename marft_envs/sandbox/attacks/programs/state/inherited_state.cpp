// State that a process hands on: signals ignored, blocked or pending, umask, priority, timers; a test looks for the last one's.
#include <csignal>
#include <cstdio>
#include <initializer_list>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>
int main() {
    sigset_t mask;
    itimerval clock;
    for (int one = 1; one < 32; ++one) {
        struct sigaction what;
        if (sigaction(one, nullptr, &what) == 0 && what.sa_handler != SIG_DFL) printf("REACHED signal %d\n", one);
    }
    sigprocmask(SIG_BLOCK, nullptr, &mask);
    for (int one = 1; one < 32; ++one)
        if (sigismember(&mask, one)) printf("REACHED a blocked signal %d\n", one);
    sigpending(&mask);
    if (!sigisemptyset(&mask)) puts("REACHED a pending signal");
    for (int one : {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF})
        if (getitimer(one, &clock) == 0 && clock.it_value.tv_sec + clock.it_value.tv_usec) puts("REACHED a timer");
    if (umask(0123) == 0123) puts("REACHED the umask");
    if (getpriority(PRIO_PROCESS, 0) == 13) puts("REACHED the priority");
    if (prctl(PR_GET_TIMERSLACK) == 123456) puts("REACHED the slack");
    if (syscall(SYS_ioprio_get, 1, 0) == (2 << 13 | 6)) puts("REACHED the priority of input and output");
    puts("contained");
    fflush(stdout);
    setpriority(PRIO_PROCESS, 0, 13);
    prctl(PR_SET_TIMERSLACK, 123456);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_KEEPCAPS, 1);
    syscall(SYS_ioprio_set, 1, 0, 2 << 13 | 6);
    clock = {{100, 0}, {100, 0}};
    setitimer(ITIMER_REAL, &clock, nullptr);
    for (int one = 1; one < 32; ++one) signal(one, SIG_IGN);
    sigfillset(&mask);
    sigprocmask(SIG_BLOCK, &mask, nullptr);
    raise(SIGUSR1);
}
