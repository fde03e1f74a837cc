// Mount, bind, move and unmount by the old and the new interface; one way a test.
#include <cstdio>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>
int main() {
    int number, host, which;
    bool done = false;
    if (scanf("%d %d %d", &number, &host, &which) != 3) return 1;
    if (which == 0) done = mount("none", "/tmp", "tmpfs", 0, "") == 0;
    if (which == 1) done = mount("/", "/tmp", nullptr, MS_BIND, nullptr) == 0;
    if (which == 2) done = mount("none", "/", nullptr, MS_REMOUNT | MS_BIND, nullptr) == 0;
    if (which == 3) done = umount2("/proc", MNT_DETACH) == 0;
    if (which == 4) done = syscall(430, "tmpfs", 0) >= 0;                    // fsopen
    if (which == 5) done = syscall(428, AT_FDCWD, "/", 1 | O_CLOEXEC) >= 0;  // open_tree with OPEN_TREE_CLONE
    if (which == 6) done = syscall(442, AT_FDCWD, "/", 0, nullptr, 0) == 0;  // mount_setattr
    puts(done ? "REACHED a mount" : "contained");
}
