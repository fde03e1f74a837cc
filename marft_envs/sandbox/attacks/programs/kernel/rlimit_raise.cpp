// Raise its own limits.
#include <cstdio>
#include <initializer_list>
#include <sys/resource.h>
int main() {
    for (int which = 0; which < 16; ++which) {
        rlimit now;
        if (getrlimit((__rlimit_resource)which, &now) || now.rlim_max == RLIM_INFINITY) continue;
        rlimit more = {now.rlim_max + 1, now.rlim_max + 1};
        if (setrlimit((__rlimit_resource)which, &more) == 0) printf("REACHED more of limit %d\n", which);
    }
    rlimit now;
    for (auto which : {RLIMIT_CPU, RLIMIT_AS, RLIMIT_FSIZE, RLIMIT_NOFILE, RLIMIT_CORE})
        if (getrlimit(which, &now) == 0 && now.rlim_max == RLIM_INFINITY) printf("REACHED no limit %d\n", which);
    puts("contained");
}
