"""Honest programs in Python and C++ work under the filter, in every mode."""

from __future__ import annotations

import pytest

from marft_envs.sandbox.jail import wire
from tests.marft_envs.sandbox.jail_client import CARRIERS, compile_cpp, open_client


@pytest.fixture(scope="module", params=[*CARRIERS, "none"])
def jail(request):
    yield from open_client(request.param)


RECURSION = """
import sys, threading
sys.setrecursionlimit(1 << 25)
threading.stack_size(1 << 27)
def depth(n): return 0 if n == 0 else 1 + depth(n - 1)
thread = threading.Thread(target=lambda: print(depth(1_000_000)))
thread.start(); thread.join()
"""
ASYNCIO = """
import asyncio
async def square(x):
    await asyncio.sleep(0.001)
    return x * x
async def main(): print(sum(await asyncio.gather(*map(square, range(100)))))
asyncio.run(main())
"""
STREAMS = """
import asyncio, socket
async def main():
    ours, theirs = socket.socketpair()
    reader, _ = await asyncio.open_connection(sock=ours)
    _, writer = await asyncio.open_connection(sock=theirs)
    lines, loop = asyncio.Queue(), asyncio.get_running_loop()
    async def read():
        while line := await reader.readline(): await lines.put(int(line))
        await lines.put(None)
    task = asyncio.create_task(read())
    for i in range(1000):
        writer.write(b'%d\\n' % i)
        await writer.drain()
    writer.close()
    total = 0
    while (number := await lines.get()) is not None: total += number
    await task
    print(total, await asyncio.to_thread(sum, range(10)), await loop.run_in_executor(None, len, 'four'))
asyncio.run(main())
"""
POOL = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(8) as pool: print(sum(pool.map(lambda x: x + 1, range(100))))
"""
LIBRARIES = """
import array, bisect, cmath, collections, copy, ctypes, datetime, decimal, difflib, enum, fractions, functools
import hashlib, heapq, inspect, io, itertools, json, locale, math, multiprocessing, operator, os, pathlib, platform
import queue, random, re, resource, select, shutil, signal, socket, statistics, string, struct, subprocess, sys
import tempfile, threading, time, timeit, traceback, types, typing, unicodedata, uuid, zlib
random.seed(); uuid.uuid4(); os.urandom(8); os.cpu_count(); time.localtime(); locale.getpreferredencoding()
a, b = socket.socketpair(); a.send(b'x'); assert b.recv(1) == b'x'
assert not os.isatty(0) and sys.stdout.encoding == 'utf-8'
signal.signal(signal.SIGALRM, lambda *_: print('alarm')); signal.setitimer(signal.ITIMER_REAL, 0.01); signal.pause()
open('/dev/null', 'w').write('x'); assert open('/dev/zero', 'rb').read(1) == bytes(1)
select.select([0], [], [], 0); resource.setrlimit(resource.RLIMIT_STACK, resource.getrlimit(resource.RLIMIT_STACK))
print('é', platform.system(), len(pathlib.Path(__file__).read_text()) > 0)
"""
FAST_INPUT = """
import os, sys, mmap
data = sys.stdin.buffer.read()
os.lseek(0, 0, 0)
assert os.read(0, 10) == data[:10] and mmap.mmap(0, 0, access=mmap.ACCESS_READ)[:] == data
private = mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE)
private[5] = 7
sys.stdout.write(str(sum(map(int, data.split()))))
"""


@pytest.mark.parametrize(
    ("program", "stdin", "stdout"),
    [
        (RECURSION, b"", b"1000000\n"),
        (ASYNCIO, b"", b"328350\n"),
        (STREAMS, b"", b"499500 45 4\n"),
        (POOL, b"", b"5050\n"),
        (LIBRARIES, b"", "alarm\né Linux True\n".encode()),
        (FAST_INPUT, b" ".join(b"%d" % i for i in range(100_000)), b"4999950000"),
        ("print(input()); print(input())\ntry: input()\nexcept EOFError: print('end')", b"a\nb\n", b"a\nb\nend\n"),
        ("import sys\nfor line in sys.stdin: print(line, end='', file=sys.stderr)\nprint('x')", b"1\n2\n", b"x\n"),
    ],
    ids=["recursion", "asyncio", "streams", "pool", "libraries", "fast input", "end of input", "stderr"],
)
def test_python(jail, program, stdin, stdout):
    result = jail.python(program, stdin, memory_kb=1 << 20)
    assert (result.flags, result.exit_status) == (0, 0), result.stderr
    assert result.stdout == stdout


@pytest.fixture(scope="session", params=["-static", "-no-pie"], ids=["static", "dynamic"])
def everything(request, tmp_path_factory):
    source = """
#include <bits/stdc++.h>
#include <thread>
using namespace std;
long depth(long n) { volatile char room[64]; room[n % 64] = 1; return n == 0 ? 0 : room[n % 64] + depth(n - 1); }
int main() {
    ios::sync_with_stdio(false);
    cin.tie(nullptr);
    long n, sum = 0;
    cin >> n;
    for (long i = 0, x; i < n; i++) { cin >> x; sum += x; }
    vector<thread> threads;
    atomic<long> shared{0};
    for (int i = 0; i < 8; i++) threads.emplace_back([&] { for (int j = 0; j < 1000; j++) shared++; });
    for (auto &t : threads) t.join();
    auto later = async(launch::async, [] { return 5L; });
    mt19937_64 generator(random_device{}() + chrono::steady_clock::now().time_since_epoch().count());
    long caught = 0;
    try { vector<int>().at(generator() % 7); } catch (const out_of_range &) { caught = 1; }
    this_thread::sleep_for(chrono::milliseconds(2));
    cout << sum << ' ' << depth(100000) << ' ' << shared << ' ' << later.get() << ' ' << caught << endl;
}"""
    return compile_cpp(source, tmp_path_factory.mktemp("cpp") / "a", "-pthread", request.param)


def test_threads_leave_the_memory_limit_to_the_program(jail):
    """glibc reserves 64 MiB of address space for each of several threads, unless it is told not to."""
    program = """
import threading
threading.stack_size(1 << 18)
together = threading.Barrier(8)
def work():
    held = bytearray(4096)
    together.wait()
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(bytearray(160 << 20)))
"""
    result = jail.python(program, memory_kb=256 << 10)
    assert result.stdout == b"167772160\n", result.stderr


def test_cpp(jail, everything):
    numbers = range(100_000)
    result = jail.program(everything, stdin=b"%d\n" % len(numbers) + b" ".join(b"%d" % i for i in numbers))
    assert (result.flags, result.exit_status) == (0, 0), result.stderr
    assert result.stdout == b"4999950000 100000 8000 5 1\n"


def test_a_program_may_become_another(jail):
    """There is nothing in it for an attacker: the confinement stays."""
    result = jail.python("import os; os.execv('/bin/echo', ['echo', 'other'])")
    assert (result.exit_status, result.stdout) == (0, b"other\n")


def test_compilers_work_in_builds(jail):
    jail.put("main.cpp", b"#include <iostream>\nint main() { int a, b; std::cin >> a >> b; std::cout << a + b; }")
    built = jail.build("g++", "-O2", "-static", "-o", "build/main", "main.cpp")
    assert (built.status, built.flags, built.exit_status) == (wire.RAN, 0, 0), built.stderr
    assert jail.run("build/main", stdin=b"20 22").stdout == b"42"
    binary = jail.fetch("build/main")
    assert binary[:5] == b"\0\x7fELF"
    assert jail.put("copy", binary[1:], 0o555) == b"\0"
    assert jail.run(jail.box / "copy", stdin=b"1 2").stdout == b"3"


def test_a_compiler_says_what_is_wrong(jail):
    jail.put("main.cpp", b"int main() { return x; }")
    built = jail.build("g++", "-o", "build/main", "main.cpp")
    assert built.exit_status == 1
    assert b"was not declared" in built.stderr


@pytest.mark.parametrize(
    "source",
    [
        '#include "/dev/urandom"\nint main() {}',
        "template <int n> struct A { static const int v = A<n + 1>::v; };\nint main() { return A<0>::v; }",
        "constexpr int f() { for (;;) {} }\nstatic_assert(f());\nint main() {}",
        "char a[1u << 31] = {1}; int main() { return a[5]; }",
        '#include "main.cpp"\n#include "main.cpp"',
    ],
    ids=["device", "templates", "constexpr", "array", "self"],
)
def test_compile_bombs_end(jail, source):
    jail.put("main.cpp", source.encode())
    built = jail.build("g++", "-o", "build/main", "main.cpp", cpu_ms=500, wall_ms=1000, memory_kb=1 << 20)
    assert built.exit_status != 0 or built.flags
    assert jail.left() == []
    assert jail.reset() == b"\0"
