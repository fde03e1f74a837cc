// Ask the compiler which files there are.
#include <cstdio>
#if __has_include("@CANARY@")
#define CANARY 1
#else
#define CANARY 0
#endif
int main() { puts(CANARY ? "REACHED a file of the host" : "contained"); }
