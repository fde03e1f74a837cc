// The newer ways to a file: embed, import, include_next, from the folders of the box.
#include <cstdio>
#if __has_include("../main.cpp") || __has_include("build/main") || __has_include("input.txt") || __has_include("/proc/self/exe")
#pragma message "REACHED a neighbour"
#endif
#import "@CANARY@"
static const unsigned char secret[] = {
#embed "@CANARY@"
};
#include_next "../../../../../../../../../@CANARY@"
int main() { fwrite(secret, 1, sizeof secret, stdout); }
