// Lock and lease the output and the input, then end: whoever reads them next must not wait.
#include <cstdio>
#include <initializer_list>
#include <fcntl.h>
#include <sys/file.h>
int main() {
    long number;
    if (scanf("%ld", &number) != 1) return 1;
    printf("%ld\n", number * number + 1);
    fflush(stdout);
    for (int one : {0, 1, 2}) {
        struct flock all = {F_WRLCK, SEEK_SET, 0, 0, 0};
        flock(one, LOCK_EX | LOCK_NB);
        fcntl(one, F_OFD_SETLK, &all);
        fcntl(one, F_SETLEASE, F_WRLCK);
        fcntl(one, F_SETSIG, 9);
        fcntl(one, F_NOTIFY, DN_MODIFY | DN_MULTISHOT);
    }
}
