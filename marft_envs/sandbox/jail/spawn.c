/* Start of a program after its plan: the steps of spawn.py in the same order, without a copy of the runner's memory.
 *
 * cc -O2 -shared -fPIC -o libspawn.so spawn.c
 *
 * The child borrows the runner's memory until it is another program (clone with CLONE_VM and CLONE_VFORK; the runner
 * stands still meanwhile), so it makes system calls only: no allocation, no libc function with state. */
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
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#define LANDLOCK_RESTRICT_SELF 446 /* the same on all machines, as is every number from 424 on */
#define SET_MODE_FILTER 1
#define NOT_STARTED 127

struct limit {
    uint64_t resource, most;
};

struct plan { /* spawn.py has the same */
    int32_t folder, stdio[3], uid, ruleset; /* uid, ruleset: -1 is none */
    uint32_t limits, steps, places;         /* how many */
    uint32_t error;                         /* out: errno */
    const char *failed;                     /* out: at what */
    const struct limit *limit;
    const char *root; /* null is ours */
    uint64_t memory;
    struct sock_filter *filter; /* null is none */
    const uint32_t *place;      /* of the pid in the filter, in bytes */
    const char *path;
    char *const *argv, *const *environment;
};

static char stack[65536] __attribute__((aligned(16)));
static pid_t runner;

int jail_version(void) { return 2; }

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

static int close_others(void) {
    if (syscall(SYS_close_range, 3, ~0U, 0) == 0) return 0;
    for (int number = 3; number < 1024; number++) syscall(SYS_close, number);
    return 0;
}

#define TRY(name, call)             \
    do {                            \
        if (call) {                 \
            plan->failed = name;    \
            plan->error = errno;    \
            syscall(SYS_exit_group, NOT_STARTED); \
        }                           \
    } while (0)

static int become(void *argument) {
    struct plan *plan = argument;
    /* also a group of the scheduler of its own: the runner gets its share beside a fork bomb */
    TRY("attach", syscall(SYS_setsid) < 0 || syscall(SYS_fchdir, plan->folder));
    for (int number = 0; number < 3; number++) TRY("attach", syscall(SYS_dup3, plan->stdio[number], number, 0) < 0);
    offer();
    for (uint32_t i = 0; i < plan->limits; i++) TRY("limit", set_limit((int)plan->limit[i].resource, plan->limit[i].most));
    if (plan->root) TRY("enter", syscall(SYS_chroot, plan->root));
    if (plan->uid >= 0) TRY("drop", drop(plan->uid));
    TRY("tie", tie());
    if (plan->ruleset >= 0) TRY("confine", syscall(LANDLOCK_RESTRICT_SELF, plan->ruleset, 0));
    TRY("confine", close_others());
    if (plan->filter) TRY("confine", install(plan));
    TRY("execute", set_limit(RLIMIT_AS, plan->memory));
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
