// Memory in the buffers of sockets, large ones and of sockets in flight: the goal is the whole memory limit.
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <initializer_list>
#include <sys/socket.h>
#include <unistd.h>
static char block[1 << 16];
static long fill(int end) {
    int most = 1 << 30;
    for (int option : {SO_SNDBUF, SO_SNDBUFFORCE, SO_RCVBUF, SO_RCVBUFFORCE}) setsockopt(end, SOL_SOCKET, option, &most, sizeof most);
    fcntl(end, F_SETFL, O_NONBLOCK);
    long held = 0;  // bounded, for it would fill the machine where nothing holds it back
    for (long count; held < 8 << 20 && (count = send(end, block, sizeof block, MSG_NOSIGNAL)) > 0;) held += count;
    return held;
}
static bool send_away(int through, const int *ends, int count) {
    alignas(cmsghdr) char room[CMSG_SPACE(2 * sizeof(int))] = {};
    char byte = 0;
    iovec piece{&byte, 1};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = room;
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(head), ends, count * sizeof(int));
    return sendmsg(through, &message, MSG_DONTWAIT | MSG_NOSIGNAL) > 0;
}
int main() {
    memset(block, 1, sizeof block);
    long total = 0;
    int carrier[2], ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, carrier)) return puts("contained: no sockets"), 0;
    for (int i = 0; i < 400 && total < 192L << 20; ++i) {
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) break;
        total += fill(ends[0]) + fill(ends[1]);
        if (send_away(carrier[0], ends, 2)) close(ends[0]), close(ends[1]);
    }
    usleep(200000);
    printf("%s %ld\n", total >= 64L << 20 ? "REACHED" : "contained", total);
}
