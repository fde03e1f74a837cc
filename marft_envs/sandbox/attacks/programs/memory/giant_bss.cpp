// Zero memory of 1.5 GB in the program's own image: does not fit before it starts.
#include <cstdio>
static volatile char block[1500000000L];
int main(int count, char**) {
    for (long i = 0; i < 1500000000L; i += 4096) block[i] = count;
    puts("REACHED 1.5 GB");
}
