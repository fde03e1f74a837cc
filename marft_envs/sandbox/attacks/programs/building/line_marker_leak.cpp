// Let the compiler show the line of an error, in a file of the host that a line marker names.
#line 1 "@CANARY@"
int main() { return undeclared; }
# 1 "/proc/self/environ" 1
int other = undeclared;
# 1 "/proc/self/mountinfo" 3 4
static_assert(false, "here");
