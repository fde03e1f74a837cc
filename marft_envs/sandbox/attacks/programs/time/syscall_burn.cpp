// Burn system time instead of user time.
#include <sys/syscall.h>
#include <unistd.h>
int main() {
    for (;;) syscall(SYS_getppid);
}
