// Let the error messages of the compiler read a file of the host aloud.
#include "@CANARY@"
#include "/etc/shadow"
int main() {}
