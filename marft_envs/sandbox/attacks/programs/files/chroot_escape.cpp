// Change the root, exchange it, and climb out of it; one way a test.
#include <cstdio>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
int main() {
    int number, host, which;
    if (scanf("%d %d %d", &number, &host, &which) != 3) return 1;
    if (which == 0 && chroot("/usr") == 0) puts("REACHED chroot");
    if (which == 1 && syscall(SYS_pivot_root, ".", ".") == 0) puts("REACHED pivot_root");
    struct stat root, above;
    int folder = open("/usr", O_RDONLY | O_DIRECTORY);
    for (int i = 0; which == 2 && i < 64 && folder >= 0; ++i) folder = openat(folder, "..", O_RDONLY | O_DIRECTORY);
    if (which == 2 && folder >= 0 && fstat(folder, &above) == 0 && stat("/", &root) == 0 && (above.st_ino != root.st_ino || above.st_dev != root.st_dev))
        puts("REACHED above the root");
    puts("contained");
}
