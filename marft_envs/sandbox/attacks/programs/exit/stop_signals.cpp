// Stop by each signal that stops, and let a timer of the kernel wake it again: no end, no failure.
#include <csignal>
#include <cstdio>
#include <initializer_list>
#include <ctime>
#include <unistd.h>
int main() {
    long number;
    timer_t timer;
    signal(SIGCONT, [](int) {});
    sigevent event = {};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGCONT;
    itimerspec often = {{0, 1000000}, {0, 1000000}};
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 || timer_settime(timer, 0, &often, nullptr) != 0) return 0;
    for (int turn = 0; turn < 30; ++turn) kill(getpid(), SIGSTOP);
    for (int one : {SIGTSTP, SIGTTIN, SIGTTOU, SIGCHLD, SIGURG, SIGWINCH}) kill(getpid(), one);
    if (scanf("%ld", &number) == 1) printf("%ld\n", number * number + 1);
}
