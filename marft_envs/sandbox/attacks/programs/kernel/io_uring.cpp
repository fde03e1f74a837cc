// A ring whose operations no system call filter sees.
#include <cstdio>
#include <sys/syscall.h>
#include <unistd.h>
int main() {
    char settings[120] = {};
    if (syscall(425, 4, settings) >= 0) puts("REACHED io_uring");
    puts("contained");
}
