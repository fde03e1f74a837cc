"""Look for secrets in the environment of this process, the runner and the judge."""
import os
import sys

host = sys.stdin.read().split()[1]
harmless = {"PATH", "HOME", "LANG", "MALLOC_ARENA_MAX", "LC_ALL", "LC_CTYPE", "PWD", "HOSTNAME", "TMPDIR", "TERM", "SHLVL", "_"}
for name in os.environ:
    if name not in harmless and not name.startswith(("PYTHON", "OMP_", "OPENBLAS_")):
        print("REACHED the variable", name, os.environ[name][:80])
for process in ("1", str(os.getppid()), host):
    try:
        with open(f"/proc/{process}/environ", "rb") as file:
            content = file.read()
    except OSError:
        continue
    if content:
        print("REACHED the environment of process", process, content[:200])
print("contained")
