// A POSIX message queue that outlives the process.
#include <cstdio>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main() {
    if (syscall(SYS_mq_open, "marft_left", O_CREAT | O_RDWR, 0666, nullptr) >= 0) puts("REACHED a queue");
    if (open("/dev/mqueue/marft_left", O_CREAT | O_RDWR, 0666) >= 0) puts("REACHED a queue's file");
    puts("contained");
}
