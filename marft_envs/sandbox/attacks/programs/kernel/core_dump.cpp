// Ask for a core dump, then crash.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <sys/prctl.h>
#include <sys/resource.h>
int main() {
    rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
    prctl(PR_SET_NAME, "marft_left");
    prctl(PR_SET_DUMPABLE, 1);
    if (setrlimit(RLIMIT_CORE, &all) == 0) puts("REACHED a core limit"), fflush(stdout);
    abort();
}
