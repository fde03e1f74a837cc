// Catch the warning that the CPU limit sends, and go on.
#include <csignal>
int main() {
    for (int number = 1; number < 65; ++number) signal(number, [](int) {});
    for (volatile unsigned long count = 0;; ++count) {
    }
}
