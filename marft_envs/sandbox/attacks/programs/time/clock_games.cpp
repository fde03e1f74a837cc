// Set the clocks (to the time that they show); one way a test.
#include <cstdio>
#include <ctime>
#include <sys/time.h>
#include <sys/timex.h>
int main() {
    int number, host, which;
    if (scanf("%d %d %d", &number, &host, &which) != 3) return 1;
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    timeval same = {now.tv_sec, now.tv_nsec / 1000};
    timex change = {};
    change.modes = ADJ_TICK;
    change.tick = 10000;
    if (which == 0 && clock_settime(CLOCK_REALTIME, &now) == 0) puts("REACHED the clock");
    if (which == 1 && settimeofday(&same, nullptr) == 0) puts("REACHED the time of day");
    if (which == 2 && adjtimex(&change) >= 0) puts("REACHED the tick");
    if (which == 3 && clock_adjtime(CLOCK_REALTIME, &change) >= 0) puts("REACHED the tick");
    puts("contained");
}
