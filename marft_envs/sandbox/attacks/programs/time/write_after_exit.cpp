// The main thread ends with success; another one lives on to write later.
#include <cstdio>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>
static void* linger(void*) {
    sleep(30);
    puts("REACHED the time after the end");
    return nullptr;
}
int main() {
    pthread_t thread;
    pthread_create(&thread, nullptr, linger, nullptr);
    syscall(SYS_exit, 0);
}
