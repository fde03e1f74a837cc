// Timers and queued signals by the thousand, and a CPU alarm of its own.
#include <csignal>
#include <cstdio>
#include <ctime>
#include <sys/time.h>
int main() {
    sigevent quiet = {};
    quiet.sigev_notify = SIGEV_SIGNAL;
    quiet.sigev_signo = SIGUSR1;
    signal(SIGUSR1, SIG_IGN);
    timer_t timer;
    int count = 0;
    while (count < 50000 && timer_create(CLOCK_MONOTONIC, &quiet, &timer) == 0) ++count;
    itimerval often = {{0, 1}, {0, 1}};
    signal(SIGPROF, SIG_IGN);
    setitimer(ITIMER_PROF, &often, nullptr);
    printf("%s %d\n", count >= 50000 ? "REACHED" : "contained", count);
}
