// Ends before main begins.
#include <cstdio>
#include <unistd.h>
__attribute__((constructor)) static void first() {
    write(1, "accepted\n", 9);
    _exit(0);
}
int main() { puts("REACHED main"); }
