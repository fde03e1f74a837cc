"""Search all memory of the interpreter's own allocator for what an earlier test of the same zygote had there."""
import ctypes
import re

number, turn = int(input()), int(input().split()[1])
mark = "".join(map(chr, range(97, 115))).encode()
kept = [mark + b"%d" % turn + b" " * size for size in range(0, 400, 8) for _ in range(50)]
pages = {id(each) >> 12 for each in kept} | {id(name) >> 12 for name in list(globals())}
found = {
    digit for page in pages for digit in re.findall(mark + rb"(\d)", ctypes.string_at(page << 12, 1 << 12)) if int(digit) != turn
}
print("REACHED the memory of test" if found else "contained", *found)
