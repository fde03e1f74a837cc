// The right answer, still in the buffer or printed, then an exception that nobody catches, or a handler's exit; one way a test.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
struct Throws {
    ~Throws() noexcept(false) { throw 2; }
};
int main() {
    long number;
    int host, which;
    if (scanf("%ld %d %d", &number, &host, &which) != 3) return 1;
    printf("%ld\n", number * number + 1);
    if (which == 0) throw std::runtime_error("REACHED-like text in an exception");
    fflush(stdout);
    if (which == 1) std::set_terminate([] { _Exit(1); });
    if (which == 2) atexit([] { abort(); }), exit(0);
    if (which == 3) std::at_quick_exit([] { _Exit(7); }), std::quick_exit(0);
    if (which == 4) [] { Throws one; throw 1; }();
    throw 1;
}
