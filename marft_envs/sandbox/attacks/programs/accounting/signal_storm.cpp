// Do all work in signal handlers: of a timer, of faults, of itself.
#include <csetjmp>
#include <csignal>
#include <sys/time.h>
#include <unistd.h>
static void work(int) {
    for (volatile int count = 0; count < 1000; ++count) {
    }
}
static void fault(int one) {
    work(one);
    signal(SIGSEGV, fault);
}
int main() {
    itimerval often = {{0, 100}, {0, 100}};
    for (int one = 1; one <= 64; ++one) signal(one, work);
    signal(SIGSEGV, fault);
    setitimer(ITIMER_REAL, &often, nullptr);
    setitimer(ITIMER_PROF, &often, nullptr);
    setitimer(ITIMER_VIRTUAL, &often, nullptr);
    *(volatile char*)nullptr = 1;
}
