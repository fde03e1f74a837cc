// The right answer and the end of the process from a thread, while the main thread waits for ever.
#include <cstdio>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>
static void* finish(void*) {
    long number;
    if (scanf("%ld", &number) == 1) printf("%ld\n", number * number + 1);
    fflush(stdout);
    syscall(SYS_exit_group, 0);
    return nullptr;
}
int main() {
    pthread_t thread;
    pthread_create(&thread, nullptr, finish, nullptr);
    pause();
}
