// Keys that the kernel keeps per user; one way a test.
#include <cstdio>
#include <sys/syscall.h>
#include <unistd.h>
int main() {
    int number, host, which;
    if (scanf("%d %d %d", &number, &host, &which) != 3) return 1;
    for (long ring = -1; which == 0 && ring >= -5; --ring)
        if (syscall(SYS_add_key, "user", "marft_left", "x", 1, ring) >= 0) printf("REACHED keyring %ld\n", ring);
    if (which == 1 && syscall(SYS_keyctl, 1, "marft_left") >= 0) puts("REACHED a session keyring");
    if (which == 2 && syscall(SYS_keyctl, 0, -4, 1) >= 0) puts("REACHED the user keyring");
    if (which == 3 && syscall(SYS_request_key, "user", "marft_left", nullptr, -2) >= 0) puts("REACHED a key");
    puts("contained");
}
