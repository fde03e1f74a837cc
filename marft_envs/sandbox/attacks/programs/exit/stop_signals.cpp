// Stop by each signal that stops, and let a timer of the kernel wake it again: no end, no failure.
#include <csignal>
#include <cstdio>
#include <initializer_list>
#include <ctime>
#include <unistd.h>
timer_t timer;
// A stop discards a SIGCONT that waits for delivery, and the timer with it would never fire again. Thus a new start each time.
void stop(int one) {
    itimerspec often = {{0, 10000000}, {0, 10000000}};
    timer_settime(timer, 0, &often, nullptr);
    kill(getpid(), one);
}
int main() {
    long number;
    signal(SIGCONT, [](int) {});
    sigevent event = {};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGCONT;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) return 0;
    for (int turn = 0; turn < 30; ++turn) stop(SIGSTOP);
    for (int one : {SIGTSTP, SIGTTIN, SIGTTOU, SIGCHLD, SIGURG, SIGWINCH}) stop(one);
    if (scanf("%ld", &number) == 1) printf("%ld\n", number * number + 1);
}
