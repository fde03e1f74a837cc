// A thread turns the output from right to wrong and back while the program ends.
#include <cstdio>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>
static char* view;
static void* turn(void*) {
    for (char last = *view;; last ^= 1) *(volatile char*)view = last;
}
int main() {
    pthread_t thread;
    long number;
    if (scanf("%ld", &number) == 1) printf("%ld\n", number * number + 1);
    fflush(stdout);
    view = (char*)mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, 1, 0);
    if (view == MAP_FAILED) return 0;
    pthread_create(&thread, nullptr, turn, nullptr);
    usleep(10000);
    _exit(0);
}
