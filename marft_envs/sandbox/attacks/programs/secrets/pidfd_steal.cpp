// Take the runner's and the judge's descriptors through pidfds; signal them, compare files with them; one way a test.
#include <cerrno>
#include <cstdio>
#include <initializer_list>
#include <sys/syscall.h>
#include <unistd.h>
int main() {
    int number, host, which;
    if (scanf("%d %d %d", &number, &host, &which) != 3) return 1;
    for (int target : {getppid(), 1, host}) {
        int handle = syscall(434, target, 0);  // pidfd_open
        if (which == 0 && handle >= 0 && syscall(424, handle, 0, 0, 0) == 0) printf("REACHED signalling %d\n", target);
        for (int i = 0; which == 1 && i < 16; ++i)
            if (syscall(438, handle, i, 0) >= 0) printf("REACHED descriptor %d of %d\n", i, target);
        if (which == 2 && syscall(SYS_kcmp, getpid(), target, 2, 0, 0) >= 0) printf("REACHED comparing with %d\n", target);
        void* head;
        unsigned long size;
        if (which == 3 && syscall(SYS_get_robust_list, target, &head, &size) == 0) printf("REACHED the lock list of %d\n", target);
    }
    puts("contained");
}
