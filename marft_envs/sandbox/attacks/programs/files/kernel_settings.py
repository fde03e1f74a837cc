"""Open the kernel's settings for writing (nothing is written)."""
import glob
import os

paths = ["/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sysrq-trigger", "/proc/sys/vm/drop_caches"]
paths += ["/proc/sys/fs/binfmt_misc/register", "/sys/kernel/uevent_helper", "/sys/power/state"]
paths += ["/proc/sys/kernel/modprobe", "/proc/irq/default_smp_affinity", "/proc/1/oom_score_adj", "/proc/1/uid_map"]
paths += glob.glob("/sys/fs/cgroup/*/release_agent") + glob.glob("/sys/fs/cgroup/*/cgroup.procs") + glob.glob("/sys/fs/cgroup/*.max")
for path in paths:
    try:
        os.open(path, os.O_WRONLY)
        print("REACHED", path)
    except OSError:
        pass
print("contained", len(paths))
