"""Open raw devices, or make them."""
import os
import stat

names = "mem kmem port kmsg kvm fuse sda vda nvme0n1 loop-control loop0 net/tun vhost-vsock vhost-net uinput rtc0 cpu/0/msr"
for name in [*names.split(), "hpet", "snapshot", "userfaultfd", "mapper/control", "nvidia0", "nvidiactl", "vfio/vfio"]:
    for flags in (os.O_RDONLY, os.O_WRONLY):
        try:
            os.open(f"/dev/{name}", flags | os.O_NONBLOCK)
            print("REACHED /dev/" + name)
        except OSError:
            pass
for folder in ("/tmp", "/dev/shm", "/dev", "/box", "."):
    for kind, number in ((stat.S_IFBLK, os.makedev(254, 0)), (stat.S_IFCHR, os.makedev(1, 1))):
        try:
            os.mknod(f"{folder}/marft_left", 0o666 | kind, number)
            print("REACHED a device node in", folder)
        except OSError:
            pass
print("contained")
