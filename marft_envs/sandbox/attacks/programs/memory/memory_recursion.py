"""Recurse without a limit; in a thread with the largest stack."""
import sys
import threading

sys.setrecursionlimit(10**9)


def fall(depth):
    return 1 if depth == 10**9 else 1 + fall(depth + 1)


threading.stack_size(32 * 2**20)
thread = threading.Thread(target=fall, args=(0,))
fall(0)
print("REACHED a depth of a billion")
