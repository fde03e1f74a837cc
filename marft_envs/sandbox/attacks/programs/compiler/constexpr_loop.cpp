// A loop for the compiler to run.
constexpr unsigned long spin() {
    unsigned long count = 1;
    while (count) count = count * 6364136223846793005UL | 1;
    return count;
}
static_assert(spin() == 0);
int main() {}
