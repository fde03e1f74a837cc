// Use much memory, then reset the peak that the kernel keeps of it.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <initializer_list>
#include <malloc.h>
#include <unistd.h>
int main() {
    size_t size = 40u << 20;
    char *held = (char *)malloc(size);
    memset(held, 1, size);
    free(held);
    malloc_trim(0);
    for (const char *path : {"/proc/self/clear_refs", "/proc/thread-self/clear_refs"}) {
        int file = open(path, O_WRONLY);
        if (file >= 0 && write(file, "5", 1) == 1) printf("REACHED %s\n", path);
    }
    puts("contained");
}
