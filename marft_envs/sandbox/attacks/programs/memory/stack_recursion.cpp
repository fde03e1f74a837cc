// Recurse without end.
static long fall(volatile long depth) {
    volatile char frame[4096] = {};
    return fall(depth + 1) + frame[depth % 4096];
}
int main() { return fall(0); }
