// Copy the output behind itself without a write: sent, copied by range, spliced through a pipe.
#include <csignal>
#include <fcntl.h>
#include <sys/sendfile.h>
#include <unistd.h>
int main() {
    static char block[65536];
    int ends[2];
    signal(SIGXFSZ, SIG_IGN);
    if (pipe(ends) != 0 || write(1, block, sizeof block) < 0) return 1;
    for (int turn = 0; turn < 2000; ++turn) {
        off_t from = 0, to = lseek(1, 0, SEEK_END), again = 0;
        copy_file_range(1, &from, 1, &to, 65536, 0);
        lseek(1, 0, SEEK_END);
        from = 0;
        sendfile(1, 1, &from, 65536);
        splice(1, &again, ends[1], nullptr, 65536, 0);
        splice(ends[0], nullptr, 1, nullptr, 65536, 0);
        if (write(1, block, sizeof block) <= 0) break;
    }
}
