// A thread becomes the program anew while three others burn: the process id stays, the clocks go on.
#include <pthread.h>
#include <unistd.h>
static char* name;
static void* burn(void*) {
    for (volatile unsigned long count = 0;; ++count) {
    }
}
static void* again(void*) {
    char* words[] = {name, nullptr};
    usleep(10000);
    execv(name, words);
    return nullptr;
}
int main(int, char** words) {
    pthread_t thread;
    name = words[0];
    for (int i = 0; i < 3; ++i) pthread_create(&thread, nullptr, burn, nullptr);
    pthread_create(&thread, nullptr, again, nullptr);
    pthread_exit(nullptr);
}
