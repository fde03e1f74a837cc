// System calls that no solution needs and exploits love; one a test.
#include <cstdio>
#include <sys/syscall.h>
#include <unistd.h>
int main() {
    int number, host, which;
    char space[256] = {};
    long result = -1;
    if (scanf("%d %d %d", &number, &host, &which) != 3) return 1;
    if (which == 0) result = syscall(SYS_userfaultfd, 1);
    if (which == 1) result = syscall(SYS_fanotify_init, 0, 0);
    if (which == 2) result = syscall(447, 0);  // memfd_secret
    if (which == 3) result = syscall(SYS_iopl, 3);
    if (which == 4) result = syscall(SYS_ioperm, 0x80, 1, 1);
    if (which == 5) result = syscall(SYS_syslog, 3, space, 256);
    if (which == 6) result = syscall(SYS_sethostname, "sbx", 3);
    if (which == 7) result = syscall(SYS_move_pages, getppid(), 0, nullptr, nullptr, nullptr, 0);
    if (which == 8) result = syscall(SYS_inotify_init1, 0);
    if (which == 9) result = syscall(SYS_kexec_load, 0, 0, nullptr, 0);
    if (which == 10) result = syscall(SYS_modify_ldt, 0, space, 256);
    if (which == 11) result = syscall(444, nullptr, 0, 0);  // landlock_create_ruleset
    if (which == 12) result = syscall(SYS_remap_file_pages, space, 0, 0, 0, 0);
    puts(result >= 0 ? "REACHED it" : "contained");
}
