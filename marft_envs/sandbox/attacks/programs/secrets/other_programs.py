"""Guess where other submissions lie: next to this one, under other uids and numbers."""
import os
import re
import sys

mark = re.compile(("MARFT_" + "SECRET" + "_[a-z]+[0-9a-f]{16}").encode())
mine = os.path.abspath(sys.orig_argv[-1])
guesses = set()
for match in re.finditer(r"\d+", mine):
    for number in range(max(0, int(match[0]) - 8), int(match[0]) + 8):
        guesses.add(mine[: match.start()] + str(number) + mine[match.end() :])
folder = os.path.dirname(mine)
while folder != "/":
    try:
        guesses |= {os.path.join(folder, name) for name in os.listdir(folder)}
    except OSError:
        pass
    folder = os.path.dirname(folder)
names = [os.path.basename(mine), "main.py", "main.cpp", "main", "build/main", "solution.py", "program.py"]
for guess in guesses - {mine}:
    for path in [guess, *(os.path.join(guess, name) for name in names)]:
        try:
            with open(path, "rb") as file:
                content = file.read(100_000)
        except OSError:
            continue
        if mark.search(content):
            print("REACHED", path)
print("contained", len(guesses))
