// Four threads: CPU time is counted over all of them.
#include <pthread.h>
static void* burn(void*) {
    for (volatile unsigned long count = 0;; ++count) {
    }
}
int main() {
    pthread_t thread;
    for (int i = 0; i < 3; ++i) pthread_create(&thread, nullptr, burn, nullptr);
    burn(nullptr);
}
