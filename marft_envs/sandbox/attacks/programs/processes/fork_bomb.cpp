// Fork without end, whatever fork says.
#include <cstdio>
#include <unistd.h>
int main() {
    for (int count = 0;; ++count)
        if (fork() > 0 && count == 8) {
            puts("REACHED 8 children");
            fflush(stdout);
        }
}
