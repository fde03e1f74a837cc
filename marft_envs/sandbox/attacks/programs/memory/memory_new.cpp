// Take memory with new[] and touch it, without end.
#include <cstring>
int main() {
    for (;;) memset(new char[1 << 20], 1, 1 << 20);
}
