// Lower the limits of the runner and the judge until they die.
#include <cstdio>
#include <initializer_list>
#include <sys/resource.h>
#include <unistd.h>
int main() {
    int number, host;
    if (scanf("%d %d", &number, &host) != 2) return 1;
    for (int target : {getppid(), 1, host}) {
        rlimit now;
        if (prlimit(target, RLIMIT_NOFILE, nullptr, &now) == 0) printf("REACHED the limits of %d\n", target);
        rlimit none = {3, 3};
        if (prlimit(target, RLIMIT_NOFILE, &none, nullptr) == 0) printf("REACHED setting a limit of %d\n", target);
    }
    puts("contained");
}
