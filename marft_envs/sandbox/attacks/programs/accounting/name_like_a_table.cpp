// Burn CPU under names that, read from the kernel's tables, say something else.
#include <pthread.h>
#include <sys/prctl.h>
static void* burn(void* name) {
    prctl(PR_SET_NAME, name);
    for (volatile unsigned long count = 0;; ++count) {
    }
}
int main() {
    pthread_t thread;
    pthread_create(&thread, nullptr, burn, (void*)"x) Z 1 1 1 0 0 ");
    pthread_create(&thread, nullptr, burn, (void*)"\nVmHWM:\t1 kB\n");
    burn((void*)") S 0 0 0 0 -1 ");
}
