// Descriptors that the runner forgot to close: its pipes, other programs, folders of the host.
#include <cstdio>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
int main() {
    for (int number = 3; number < 65536; ++number)
        if (fcntl(number, F_GETFD) >= 0) printf("REACHED descriptor %d\n", number);
    struct stat what;
    for (int number = 0; number < 3; ++number)
        if (fstat(number, &what) == 0 && (S_ISSOCK(what.st_mode) || S_ISFIFO(what.st_mode) || S_ISDIR(what.st_mode)))
            printf("REACHED a channel at %d: mode %o\n", number, what.st_mode);
    if (openat(0, "..", O_RDONLY) >= 0 || openat(2, "/proc", O_RDONLY | O_TMPFILE, 0600) >= 0) puts("REACHED a folder");
    puts("contained");
}
