// A header that includes itself, twice.
#include __FILE__
#include __FILE__
int main() {}
