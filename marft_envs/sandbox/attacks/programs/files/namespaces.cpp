// New namespaces, or those of others; one a test.
#include <cstdio>
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>
int main() {
    const int flags[] = {CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWIPC, CLONE_NEWUTS, CLONE_NEWCGROUP, 0x80,
                         CLONE_NEWUSER | CLONE_NEWNS};
    const char* others[] = {"/proc/1/ns/mnt", "/proc/1/ns/user", "/proc/self/ns/mnt", "/usr"};
    int number, host, which;
    if (scanf("%d %d %d", &number, &host, &which) != 3) return 1;
    if (which < 9) return puts(unshare(flags[which]) == 0 ? "REACHED a namespace" : "contained"), 0;
    int file = open(others[which - 9], O_RDONLY);
    puts(setns(file, 0) == 0 ? "REACHED another namespace" : "contained");
}
