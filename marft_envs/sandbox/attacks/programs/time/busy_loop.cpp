// Use the CPU for ever, with every signal blocked that can be.
#include <csignal>
int main() {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, nullptr);
    for (volatile unsigned long count = 0;; ++count) {
    }
}
