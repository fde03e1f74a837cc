// The main thread ends; four others burn CPU where a clock of the main thread would not see it.
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>
static void* burn(void*) {
    for (volatile unsigned long count = 0;; ++count) {
    }
}
int main() {
    pthread_t thread;
    for (int i = 0; i < 4; ++i) pthread_create(&thread, nullptr, burn, nullptr);
    syscall(SYS_exit, 0);
}
