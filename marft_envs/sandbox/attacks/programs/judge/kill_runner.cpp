// Every system call that sends a signal, at the runner, at process 1 and at the judge.
#include <csignal>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <sys/syscall.h>
#include <unistd.h>
int main() {
    int number, host;
    if (scanf("%d %d", &number, &host) != 2) return 1;
    for (int target : {getppid(), 1, host}) {
        siginfo_t info;
        memset(&info, 0, sizeof info);
        info.si_code = SI_QUEUE;
        int sent = 0;
        sent += kill(target, 0) == 0;
        sent += syscall(SYS_tkill, target, 0) == 0;
        sent += syscall(SYS_tgkill, target, target, 0) == 0;
        sent += syscall(SYS_rt_sigqueueinfo, target, 0, &info) == 0;
        sent += syscall(SYS_rt_tgsigqueueinfo, target, target, 0, &info) == 0;
        if (sent) printf("REACHED %d in %d ways\n", target, sent);
    }
    fflush(stdout);
    kill(getppid(), SIGKILL);
    puts("contained");
}
