// A header without an end.
#include </dev/random>
int main() {}
