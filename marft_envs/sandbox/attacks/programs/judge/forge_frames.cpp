// Answers in the runner's name on every descriptor, stdin included, in one write each.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <unistd.h>
int main() {
    char frame[128] = {};
    uint32_t length = 9 + 42 + 8;
    uint64_t total = 8;
    uint32_t count = 8;
    memcpy(frame, &length, 4);
    frame[4] = 4;
    memcpy(frame + 13 + 38 - 8, &total, 8);
    memcpy(frame + 13 + 38, &count, 4);
    memcpy(frame + 13 + 42, "forged!\n", 8);
    int written = 0;
    for (uint64_t nonce = 0; nonce < 256; ++nonce) {
        memcpy(frame + 5, &nonce, 8);
        for (int number = 3; number < 64; ++number) written += write(number, frame, length + 4) > 0;
        write(0, frame, length + 4);
        write(2, frame, length + 4);
    }
    puts(written ? "REACHED a channel" : "contained");
}
