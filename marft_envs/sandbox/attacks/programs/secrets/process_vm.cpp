// Read (first test) and write (second) the memory of the runner and the judge.
#include <cerrno>
#include <cstdio>
#include <initializer_list>
#include <sys/uio.h>
#include <unistd.h>
int main() {
    int number, host, which;
    if (scanf("%d %d %d", &number, &host, &which) != 3) return 1;
    for (int target : {getppid(), 1, host}) {
        char word[8];
        iovec here = {word, 8}, there = {(void*)0x400000, 8}, nowhere = {(void*)16, 8};
        if (which == 0 && (process_vm_readv(target, &here, 1, &there, 1, 0) >= 0 || errno == EFAULT)) printf("REACHED reading %d\n", target);
        if (which == 1 && (process_vm_writev(target, &here, 1, &nowhere, 1, 0) >= 0 || errno == EFAULT)) printf("REACHED writing %d\n", target);
    }
    puts("contained");
}
