/* Start of a program after its plan: the steps of spawn.py in the same order, without a copy of the runner's memory.
 *
 * cc -O2 -shared -fPIC -o libspawn.so spawn.c
 *
 * The child borrows the runner's memory until it is another program (clone with CLONE_VM and CLONE_VFORK; the runner
 * stands still meanwhile), so it makes system calls only: no allocation, no libc function with state.
 *
 * An interpreter can also load this library as the module `zygote`. It is then forked for each test, and only the fork
 * carries out a plan (zygote.py has the other end). */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#define LANDLOCK_RESTRICT_SELF 446 /* the same on all machines, as is every number from 424 on */
#define SET_MODE_FILTER 1
#define NOT_STARTED 127
#define CHANNEL 3 /* of a zygote */

struct limit {
    uint64_t resource, most;
};

struct plan { /* spawn.py has the same */
    int32_t folder, stdio[3], channel, uid, ruleset; /* channel, uid, ruleset: -1 is none */
    uint32_t limits, steps, places;                  /* how many */
    uint32_t error;                                  /* out: errno */
    const char *failed;                              /* out: at what */
    const struct limit *limit;
    const char *root; /* null is ours */
    uint64_t memory;
    struct sock_filter *filter; /* null is none */
    const uint32_t *place;      /* of the pid in the filter, in bytes */
    const char *path; /* null in the fork of a zygote, which is the program already */
    char *const *argv, *const *environment;
};

struct answer { /* of a zygote to a request, and of its fork that failed */
    int32_t is_failure, pid, error;
    char failed[20];
};

static char stack[65536] __attribute__((aligned(16)));
static pid_t runner;

int jail_version(void) { return 3; }

/* Where memory runs out, the kernel is to end the program and not the runner; while it is root it may say so. */
static void offer(void) {
    int file = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (file < 0) return;
    syscall(SYS_write, file, "1000", 4);
    syscall(SYS_close, file);
}

static int set_limit(int resource, uint64_t most) {
    uint64_t both[2] = {most, most};
    return syscall(SYS_prlimit64, 0, resource, both, NULL);
}

static int drop(int uid) {
    return syscall(SYS_setgroups, 0, NULL) || syscall(SYS_setresgid, uid, uid, uid) || syscall(SYS_setresuid, uid, uid, uid);
}

static int tie(void) {
    uint64_t no_signals = 0;
    if (syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) ||
        syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0))
        return -1;
    if (syscall(SYS_getppid) != runner) {
        errno = ESRCH;
        return -1;
    }
    return syscall(SYS_rt_sigprocmask, SIG_SETMASK, &no_signals, NULL, sizeof no_signals);
}

static int install(const struct plan *plan) {
    struct sock_fprog program = {(unsigned short)plan->steps, plan->filter};
    uint32_t own = (uint32_t)syscall(SYS_getpid);
    for (uint32_t i = 0; i < plan->places; i++) memcpy((char *)plan->filter + plan->place[i], &own, sizeof own);
    return syscall(SYS_seccomp, SET_MODE_FILTER, 0, &program);
}

static int close_others(int first) {
    if (syscall(SYS_close_range, first, ~0U, 0) == 0) return 0;
    for (int number = first; number < 1024; number++) syscall(SYS_close, number);
    return 0;
}

/* Ends the child. The runner sees plan->error if the child shares its memory; a fork sends it. */
static void fail(struct plan *plan, const char *name) {
    plan->error = errno;
    plan->failed = name;
    if (!plan->path) {
        struct answer answer = {1, (int32_t)syscall(SYS_getpid), errno, ""};
        for (int i = 0; i < 19 && name[i]; i++) answer.failed[i] = name[i];
        syscall(SYS_write, CHANNEL, &answer, sizeof answer);
    }
    syscall(SYS_exit_group, NOT_STARTED);
}

#define TRY(name, call)                \
    do {                               \
        if (call) fail(plan, name);    \
    } while (0)

static void confine(struct plan *plan) {
    /* also a group of the scheduler of its own: the runner gets its share beside a fork bomb */
    TRY("attach", syscall(SYS_setsid) < 0 || syscall(SYS_fchdir, plan->folder));
    for (int number = 0; number < 3; number++) TRY("attach", syscall(SYS_dup3, plan->stdio[number], number, 0) < 0);
    if (plan->channel >= 0 && plan->channel != CHANNEL) TRY("attach", syscall(SYS_dup3, plan->channel, CHANNEL, 0) < 0);
    if (plan->path) offer(); /* a fork has it from its zygote */
    for (uint32_t i = 0; i < plan->limits; i++) TRY("limit", set_limit((int)plan->limit[i].resource, plan->limit[i].most));
    if (plan->root) TRY("enter", syscall(SYS_chroot, plan->root));
    if (plan->uid >= 0) TRY("drop", drop(plan->uid));
    TRY("tie", tie());
    /* execve does this for others; its memory would still be that of the runner */
    if (!plan->path) TRY("tie", syscall(SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0));
    if (plan->ruleset >= 0) TRY("confine", syscall(LANDLOCK_RESTRICT_SELF, plan->ruleset, 0));
    TRY("confine", close_others(plan->channel < 0 ? CHANNEL : CHANNEL + 1));
    if (plan->filter) TRY("confine", install(plan));
    TRY("execute", set_limit(RLIMIT_AS, plan->memory));
}

static int become(void *argument) {
    struct plan *plan = argument;
    confine(plan);
    TRY("execute", syscall(SYS_execve, plan->path, plan->argv, plan->environment));
    return NOT_STARTED;
}

static int end_at_once(void *nothing) { return 0; }

/* Takes the next process id with a thread that ends at once; returns the id, or minus errno. */
int jail_take_pid(void) {
    int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_VFORK;
    int pid = clone(end_at_once, stack + sizeof stack, flags, NULL);
    return pid < 0 ? -errno : pid;
}

/* Returns the child's pid, or minus errno. Where the child could not become the program, plan->error says why. */
int jail_start(struct plan *plan) {
    runner = (pid_t)syscall(SYS_getpid);
    int pid = clone(become, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, plan);
    return pid < 0 ? -errno : pid;
}

/* The zygote, and the runner's end of its channel. A request is a plan and its three arrays, with the descriptors. */

static union {
    struct plan plan;
    char bytes[65536];
} request;

static const char *start_of_arrays = request.bytes + sizeof(struct plan);

/* Receives the next request; ends the zygote if the runner has closed the channel or sent something else. */
static void receive(void) {
    char control[CMSG_SPACE(5 * sizeof(int))] __attribute__((aligned(8)));
    struct iovec whole = {request.bytes, sizeof request};
    struct msghdr message = {.msg_iov = &whole, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t length;
    do length = recvmsg(CHANNEL, &message, MSG_CMSG_CLOEXEC);
    while (length < 0 && errno == EINTR);
    struct plan *plan = &request.plan;
    struct cmsghdr *passed = length > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (length < (ssize_t)sizeof *plan || !passed || message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) _exit(NOT_STARTED);
    size_t limits = plan->limits * sizeof *plan->limit, steps = plan->steps * sizeof *plan->filter;
    size_t places = plan->places * sizeof *plan->place, count = plan->ruleset >= 0 ? 5 : 4;
    if (sizeof *plan + limits + steps + places != (size_t)length || passed->cmsg_len != CMSG_LEN(count * sizeof(int)))
        _exit(NOT_STARTED);
    int numbers[5] = {-1, -1, -1, -1, -1};
    memcpy(numbers, CMSG_DATA(passed), count * sizeof(int));
    memcpy(plan->stdio, numbers, sizeof plan->stdio);
    plan->folder = numbers[3];
    plan->ruleset = numbers[4];
    plan->channel = CHANNEL;
    plan->limit = (const struct limit *)start_of_arrays;
    plan->filter = steps ? (struct sock_filter *)(start_of_arrays + limits) : NULL;
    plan->place = (const uint32_t *)(start_of_arrays + limits + steps);
}

/* Forks this process for each request. Returns in a fork that has carried out the plan, and nowhere else: the
 * interpreter itself never gets beyond this call.
 *
 * The fork is a child of the runner (CLONE_PARENT). Its memory is a copy, so glibc's record of the thread's id and the
 * list of its robust mutexes are set anew, as fork() does; nothing else of a process with one thread needs that. */
static void serve(void) {
    int *tid;
    void *mutexes;
    size_t size;
    runner = (pid_t)syscall(SYS_getppid);
    if (syscall(SYS_prctl, PR_GET_TID_ADDRESS, &tid, 0, 0, 0) || syscall(SYS_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0) ||
        syscall(SYS_get_robust_list, 0, &mutexes, &size))
        _exit(NOT_STARTED);
    for (;;) {
        receive();
        struct plan *plan = &request.plan;
        /* The order of the last two arguments depends on the machine; the other one is not used. */
        int pid = (int)syscall(SYS_clone, CLONE_PARENT | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID, NULL, NULL, tid, tid);
        if (pid == 0) {
            TRY("fork", syscall(SYS_set_robust_list, mutexes, size));
            confine(plan);
            syscall(SYS_close, CHANNEL);
            return;
        }
        struct answer answer = {0, pid, pid < 0 ? errno : 0, ""};
        close_others(CHANNEL + 1); /* first: once the runner has its answer, this process holds nothing of a test */
        if (write(CHANNEL, &answer, sizeof answer) != sizeof answer) _exit(NOT_STARTED);
    }
}

/* Called by the interpreter that imports this library. No module and no exception make it raise SystemError. */
void *PyInit_zygote(void) {
    serve();
    return NULL;
}

static ssize_t next_answer(int channel, struct answer *answer, int flags) {
    ssize_t length;
    do length = recv(channel, answer, sizeof *answer, flags);
    while (length < 0 && errno == EINTR);
    if (length >= 0 && length != sizeof *answer) errno = EPIPE;
    answer->failed[sizeof answer->failed - 1] = 0;
    return length == sizeof *answer;
}

static int note(struct plan *plan, const struct answer *answer) {
    static char name[sizeof answer->failed];
    memcpy(name, answer->failed, sizeof name);
    plan->error = (uint32_t)answer->error;
    plan->failed = name;
    return 1;
}

/* Asks a zygote for a fork that carries out a plan; returns its pid, or minus errno. */
int jail_fork(int channel, struct plan *plan) {
    struct plan sent = *plan; /* without addresses of ours */
    sent.limit = NULL, sent.filter = NULL, sent.place = NULL;
    sent.failed = sent.root = sent.path = NULL, sent.argv = sent.environment = NULL;
    struct iovec parts[4] = {{&sent, sizeof sent},
                             {(void *)plan->limit, plan->limits * sizeof *plan->limit},
                             {plan->filter, plan->steps * sizeof *plan->filter},
                             {(void *)plan->place, plan->places * sizeof *plan->place}};
    int numbers[5] = {plan->stdio[0], plan->stdio[1], plan->stdio[2], plan->folder, plan->ruleset};
    size_t size = (plan->ruleset >= 0 ? 5 : 4) * sizeof(int);
    char control[CMSG_SPACE(sizeof numbers)] __attribute__((aligned(8))) = {0};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 4, .msg_control = control, .msg_controllen = CMSG_SPACE(size)};
    struct cmsghdr *passed = CMSG_FIRSTHDR(&message);
    passed->cmsg_level = SOL_SOCKET, passed->cmsg_type = SCM_RIGHTS, passed->cmsg_len = CMSG_LEN(size);
    memcpy(CMSG_DATA(passed), numbers, size);
    if (sendmsg(channel, &message, MSG_NOSIGNAL) < 0) return -errno;
    struct answer answer;
    do {
        if (!next_answer(channel, &answer, 0)) return -errno;
        if (answer.is_failure) note(plan, &answer);
    } while (answer.is_failure);
    return answer.error ? -answer.error : answer.pid;
}

/* Notes the failure of a fork that has ended, if it sent one. */
void jail_fork_ended(int channel, struct plan *plan) {
    struct answer answer;
    while (next_answer(channel, &answer, MSG_DONTWAIT)) note(plan, &answer);
}

/* Makes the two ends of a channel; an answer that takes longer than `seconds` is an error. Returns 0, or minus errno. */
int jail_channel(int *ends, int seconds) {
    struct timeval most = {seconds, 0};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)) return -errno;
    return setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most) ? -errno : 0;
}
