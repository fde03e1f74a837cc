// The right answer in time, after two threads that have ended used up the CPU time.
#include <cstdio>
#include <ctime>
#include <pthread.h>
static void* burn(void*) {
    timespec now;
    do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while (now.tv_sec * 1000 + now.tv_nsec / 1000000 < 120);
    return nullptr;
}
int main() {
    pthread_t threads[2];
    long number;
    for (auto& one : threads) pthread_create(&one, nullptr, burn, nullptr);
    for (auto& one : threads) pthread_join(one, nullptr);
    if (scanf("%ld", &number) == 1) printf("%ld\n", number * number + 1);
}
