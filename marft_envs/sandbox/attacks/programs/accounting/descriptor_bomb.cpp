// Descriptors without end, each with an object of the kernel's behind it; the goal is 65536.
#include <csignal>
#include <cstdio>
#include <initializer_list>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>
int main() {
    rlimit limit;
    long count = 0;
    sigset_t all;
    sigfillset(&all);
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    for (bool more = true; more && count < 65536;) {
        more = false;
        for (int one : {eventfd(0, 0), epoll_create1(0), timerfd_create(CLOCK_MONOTONIC, 0), signalfd(-1, &all, 0), dup(0)})
            count += one >= 0, more |= one >= 0;
    }
    puts(count >= 65536 ? "REACHED 65536 descriptors" : "contained");
}
