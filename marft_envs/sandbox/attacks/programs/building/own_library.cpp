// Put its own functions in the place of the library's: the start, the end, the printing, the allocation.
#include <cstddef>
#include <sys/syscall.h>
#include <unistd.h>
extern "C" int __libc_start_main(int (*)(int, char**, char**), int, char**, void (*)(), void (*)(), void (*)(), void*) {
    const char text[] = "contained, without a start\n";
    long done = 0;
    asm volatile("syscall" : "=a"(done) : "a"(SYS_write), "D"(1), "S"(text), "d"(sizeof text - 1) : "rcx", "r11", "memory");
    asm volatile("syscall" : "=a"(done) : "a"(SYS_exit_group), "D"(0) : "rcx", "r11", "memory");
    return 0;
}
int main() {}
