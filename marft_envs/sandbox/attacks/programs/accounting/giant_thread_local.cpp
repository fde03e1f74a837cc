// Thread-local memory of a gigabyte, once for each thread.
#include <cstdio>
#include <thread>
thread_local char block[1u << 30];
int main() {
    std::thread([] { block[1u << 29] = 1; }).join();
    printf("REACHED %p\n", (void*)block);
}
