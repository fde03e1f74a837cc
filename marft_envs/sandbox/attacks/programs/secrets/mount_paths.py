"""Read paths of the host in what the kernel tells of mounts and control groups."""
for name in ("mountinfo", "mounts", "mountstats", "cgroup", "smaps", "maps"):
    try:
        with open(f"/proc/self/{name}") as file:
            text = file.read()
    except OSError:
        continue
    for word in text.replace(",", " ").split():
        if any(part in word for part in ("upperdir=", "/docker/", "marft-sandbox", "/var/lib/", "/dev/vd", "/dev/sd")):
            print("REACHED", name, word)
print("contained")
