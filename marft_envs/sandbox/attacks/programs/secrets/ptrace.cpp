// Trace the runner, the judge, or itself.
#include <cstdio>
#include <initializer_list>
#include <sys/ptrace.h>
#include <unistd.h>
int main() {
    int targets[] = {getppid(), 1}, number, host;
    if (scanf("%d %d", &number, &host) != 2) return 1;
    for (int target : {targets[0], targets[1], host}) {
        if (ptrace(PTRACE_ATTACH, target, 0, 0) == 0) printf("REACHED attach %d\n", target);
        if (ptrace(PTRACE_SEIZE, target, 0, 0) == 0) printf("REACHED seize %d\n", target);
    }
    if (ptrace(PTRACE_TRACEME, 0, 0, 0) == 0) puts("REACHED traceme");
    puts("contained");
}
