// The right answer; the main thread ends with a failure, a later thread with success.
#include <cstdio>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>
static void* finish(void*) {
    usleep(20000);
    syscall(SYS_exit, 0);
    return nullptr;
}
int main() {
    pthread_t thread;
    long number;
    if (scanf("%ld", &number) == 1) printf("%ld\n", number * number + 1);
    fflush(stdout);
    pthread_create(&thread, nullptr, finish, nullptr);
    syscall(SYS_exit, 3);
}
