// Another execution domain: no address randomisation, readable means executable.
#include <cstdio>
#include <sys/personality.h>
int main() {
    bool changed = personality(ADDR_NO_RANDOMIZE) != -1 || personality(READ_IMPLIES_EXEC) != -1 || personality(PER_LINUX32) != -1;
    puts(changed ? "REACHED another personality" : "contained");
}
