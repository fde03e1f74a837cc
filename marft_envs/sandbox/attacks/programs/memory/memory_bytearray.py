"""Take memory in one-megabyte pieces."""
hoard = []
while len(hoard) < 4096:
    hoard.append(bytearray(b"x") * 2**20)
print("REACHED 4 GiB")
