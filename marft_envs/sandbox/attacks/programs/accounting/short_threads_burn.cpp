// Burn CPU in threads that live for a millisecond: none is there when somebody looks.
#include <ctime>
#include <pthread.h>
static void* burn(void*) {
    timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - start.tv_sec) * 1000000000L + now.tv_nsec - start.tv_nsec < 1000000);
    return nullptr;
}
int main() {
    for (;;) {
        pthread_t threads[2];
        for (auto& one : threads) pthread_create(&one, nullptr, burn, nullptr);
        for (auto& one : threads) pthread_join(one, nullptr);
    }
}
