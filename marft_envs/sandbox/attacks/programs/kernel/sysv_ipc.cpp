// Shared memory, semaphores and queues that outlive the process.
#include <cstdio>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
int main() {
    const key_t key = 0x4d415246;
    int memory = shmget(key, 1 << 20, IPC_CREAT | 0666), locks = semget(key, 1, IPC_CREAT | 0666), queue = msgget(key, IPC_CREAT | 0666);
    if (memory >= 0) puts("REACHED shared memory");
    if (locks >= 0) puts("REACHED semaphores");
    if (queue >= 0) puts("REACHED a queue");
    puts("contained");
}
