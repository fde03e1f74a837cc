// Threads with tiny stacks until the system refuses; the goal is 500 at once, for a quarter of a second.
#include <cstdio>
#include <pthread.h>
#include <unistd.h>
static void* wait(void*) { return pause(), nullptr; }
int main() {
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 16384);
    int count = 0;
    pthread_t thread;
    while (count < 500 && pthread_create(&thread, &small, wait, nullptr) == 0) ++count;
    usleep(250000);
    printf("%s %d\n", count < 500 ? "contained" : "REACHED", count);
    fflush(stdout);
    _exit(0);
}
