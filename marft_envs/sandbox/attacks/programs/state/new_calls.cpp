// Calls of newer kernels than most filters know: lists of mounts, of security modules, of pages; one a test.
#include <cstdint>
#include <cstdio>
#include <sys/syscall.h>
#include <unistd.h>
int main() {
    int number, host, which;
    static char space[65536];
    struct { uint32_t size, spare; uint64_t mount, param, ns; } ask = {24, 0, ~0ull, 0, 0};
    uint32_t size = sizeof space;
    long done = -1;
    if (scanf("%d %d %d", &number, &host, &which) != 3) return 1;
    if (which == 0) done = syscall(458, &ask, space, 8, 0);           // listmount of the root
    ask.param = 0x3f;
    if (which == 1) done = syscall(457, &ask, space, sizeof space, 0);  // statmount
    if (which == 2) done = syscall(461, space, &size, 0);              // lsm_list_modules
    if (which == 3) done = syscall(459, 100, space, &size, 0);          // lsm_get_self_attr
    if (which == 4) done = syscall(453, 0, 4096, 0);                   // map_shadow_stack
    if (which == 5) done = syscall(SYS_mbind, space, 4096, 1, nullptr, 0, 0);
    if (which == 6) done = syscall(139, 3);                            // sysfs: the number of file systems
    if (which == 7) done = syscall(SYS_quotactl, 0, nullptr, 0, space);
    puts(done >= 0 ? "REACHED it" : "contained");
}
