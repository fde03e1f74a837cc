// Options from within the source.
#pragma GCC dependency "@CANARY@"
#pragma GCC pch_preprocess "/etc/passwd"
#pragma GCC optimize("-fplugin=/tmp/marft_left.so", "-fdump-tree-all", "-o/tmp/marft_left", "-save-temps")
#include <cstdio>
int main() { puts("contained"); }
