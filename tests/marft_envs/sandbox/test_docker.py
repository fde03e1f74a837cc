"""The Docker backend: its walls, and that no container is left and no verdict lost, whoever is killed."""

import contextlib
import io
import os
import signal
import socket
import subprocess
import sys
import tarfile
import threading
import time
from types import SimpleNamespace

import docker
import pytest

from marft_envs.sandbox import Judge, Limits, SandboxError, Submission, Test
from marft_envs.sandbox import pool as pool_module
from marft_envs.sandbox.docker_backend import OWNER_LABEL, ContainerJail, DockerBackend, connect
from marft_envs.sandbox.host_machine import owner_mark
from marft_envs.sandbox.image import DEFAULT_IMAGE, TOOLS, build_image
from marft_envs.sandbox.jail.plan import DEVICES, ZEROS
from marft_envs.sandbox.judge_data import MAX_TEST_BYTES
from marft_envs.sandbox.submission_run import build_request
from tests.marft_envs.sandbox.interruption import interrupted

pytestmark = pytest.mark.docker
TESTS = [Test(b"%d" % n, b"%d" % (n + 1)) for n in range(4)]
NEXT = "print(int(input()) + 1)"


@pytest.fixture(scope="module")
def client():
    made = connect()
    yield made
    made.close()


def containers(client, mark=None):
    label = OWNER_LABEL if mark is None else f"{OWNER_LABEL}={mark}"
    return client.containers.list(all=True, filters={"label": label}, ignore_removed=True)


def wait_until(condition, timeout_s=60):
    end = time.monotonic() + timeout_s
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


def test_a_container_has_every_wall(client):
    before = {container.id for container in containers(client)}
    with Judge(backend="docker", workers=1) as judge:
        judge.run("", tests=[Test(b"", b"")])
        (ours,) = [container for container in containers(client, owner_mark()) if container.id not in before]
        host, config = ours.attrs["HostConfig"], ours.attrs["Config"]
        assert host["CapDrop"] == ["ALL"]
        assert {name.removeprefix("CAP_") for name in host["CapAdd"]} == {"KILL", "SETGID", "SETUID", "SYS_CHROOT"}
        assert host["SecurityOpt"] == ["no-new-privileges:true"]
        assert (host["NetworkMode"], host["IpcMode"], host["ReadonlyRootfs"], host["Privileged"]) == (
            "none",
            "none",
            True,
            False,
        )
        assert (host["Binds"], ours.attrs["Mounts"]) == (None, [])
        assert {device["PathOnHost"] for device in host["Devices"]} == {*DEVICES, ZEROS}
        assert sorted(host["Tmpfs"]) == ["/jail", "/jail/box", "/jail/dev"]
        assert (host["PidsLimit"], host["NanoCpus"]) == (65, 10**9)
        with_root = (4096 + 64) << 20  # the copies that programs have as their root count too
        assert host["Memory"] == host["MemorySwap"] == with_root
        assert host["LogConfig"]["Type"] == "none"
        assert config["StdinOnce"]
        assert not any(ours.attrs["NetworkSettings"]["Ports"] or [])
    # the engine may be removing it when we ask it to: then it goes in a moment
    assert wait_until(lambda: not {container.id for container in containers(client, owner_mark())} - before)


def test_killing_containers_in_the_middle_of_a_batch_loses_no_verdict(client):
    before = {container.id for container in containers(client)}

    def kill():
        for container in containers(client, owner_mark()):
            if container.id not in before:
                container.kill()

    with Judge(backend="docker", workers=2) as judge:
        judgements = judge.run_many(interrupted(NEXT, 8, kill))
        assert [judgement.verdict for judgement in judgements] == ["OK"] * 8
        assert 1 <= sum("first attempt" in judgement.details for judgement in judgements) <= 2


@pytest.mark.long
def test_a_container_says_whether_its_memory_ran_out(client, monkeypatch):
    """An input that is larger than the container takes the runner along, since it is the runner's memory."""
    told = []
    found_out = ContainerJail.ran_out_of_memory
    monkeypatch.setattr(ContainerJail, "ran_out_of_memory", lambda jail: told.append(found_out(jail)) or told[-1])
    with Judge(backend="docker", workers=1, slot_memory_mb=48, self_test=False) as judge:
        asked = Submission("pass", "python", [Test(bytes(60 << 20), b"")], Limits(memory_mb=24))
        with pytest.raises(ValueError, match="slot_memory_mb=180"):
            judge.submit(asked)
        large = judge._pool.submit(asked).result()
        assert told == [True, True]
        assert (large.verdict, large.tests[0].verdict) == ("MLE", "MLE")
    with Judge(backend="docker", workers=1, self_test=False) as judge:
        judge._pool._slots[0]._jail._container.kill()
        assert judge.run(NEXT, tests=TESTS).verdict == "OK"
    assert told[2:] == [False]


def test_the_box_holds_what_a_checker_program_may_get():
    """The largest input, output and expected output lie in it at once."""
    fill = f"for name in 'abc': open('build/' + name, 'wb').write(bytes({MAX_TEST_BYTES}))"
    argv = (TOOLS["python"].encode(), b"-c", fill.encode())
    request = build_request(argv)._replace(output_bytes=MAX_TEST_BYTES)
    backend = DockerBackend(DEFAULT_IMAGE, 1, 4096)
    slot = backend.open_slot(0)
    try:
        (result,) = slot.run_all([request], ahead=False)
        assert result.exit_status == 0, result.stderr
    finally:
        slot.close()
        backend.close()


KILL_COMPILER = """
import os, time
while True:
    for process in filter(str.isdigit, os.listdir('/proc')):
        try: name = open(f'/proc/{process}/comm').read()
        except OSError: continue
        if name == 'cc1plus\\n':
            os.kill(int(process), 9)
            raise SystemExit
    time.sleep(0.005)
"""


@pytest.mark.long
def test_a_compiler_that_was_killed_from_outside_is_run_again(client):
    before = {container.id for container in containers(client)}
    program = (
        '#include <regex>\n#include <iostream>\nint main() { std::cout << std::regex_match("a", std::regex("a")); }'
    )
    with Judge(backend="docker", workers=1) as judge:
        (ours,) = [container for container in containers(client, owner_mark()) if container.id not in before]
        killer = client.api.exec_create(ours.id, ["python3", "-c", KILL_COMPILER])
        client.api.exec_start(killer, detach=True)
        assert judge.run(program, "c++", [Test(b"", b"1")]).verdict == "OK"
        assert client.api.exec_inspect(killer)["ExitCode"] == 0  # it has killed one


class Engine:
    """A way to the engine that can be cut: whoever goes through it sees an engine that was killed."""

    def __init__(self, path, target):
        self.path, self._target = str(path), target
        self._changing, self._is_up = threading.Lock(), False
        self.start()

    def start(self):
        """Make it answer, if it does not."""
        with self._changing:
            if not self._is_up:
                self._start()

    def kill(self):
        with self._changing:
            self._kill()

    def _start(self):
        self._open, self._threads = [], []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen()
        self._run(self._accept, self._listener)
        self._is_up = True

    def _kill(self):
        self._is_up = False
        os.unlink(self.path)
        for end in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for end in (self._listener, *self._open):
            end.close()

    def _run(self, work, *ends):
        self._threads.append(threading.Thread(target=work, args=ends))
        self._threads[-1].start()

    def _accept(self, listener):
        with contextlib.suppress(OSError):
            while True:
                near, far = listener.accept()[0], socket.socket(socket.AF_UNIX)
                self._open += [near, far]
                far.connect(self._target)
                self._run(self._pump, near, far)
                self._run(self._pump, far, near)

    @staticmethod
    def _pump(source, sink):
        with contextlib.suppress(OSError):
            while chunk := source.recv(1 << 16):
                sink.sendall(chunk)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)


@pytest.mark.long
def test_killing_the_engine_in_the_middle_of_a_batch_loses_no_verdict(client, tmp_path, monkeypatch):
    target = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock").removeprefix("unix://")
    before = {container.id for container in containers(client)}
    engine = Engine(tmp_path / "engine.sock", target)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{engine.path}")
    with Judge(backend="docker", workers=2) as judge:
        with monkeypatch.context() as patch:  # the engine is back after the first pause that its death makes
            patch.setattr(pool_module, "time", SimpleNamespace(sleep=lambda seconds: engine.start()))
            judgements = judge.run_many(interrupted(NEXT, 8, engine.kill))
            assert [judgement.verdict for judgement in judgements] == ["OK"] * 8
            assert any("first attempt" in judgement.details for judgement in judgements)
            assert judge.run(NEXT, tests=TESTS).verdict == "OK"
        engine.kill()
        lost = judge.run_many([Submission(NEXT, "python", TESTS)] * 3)
        assert [judgement.verdict for judgement in lost] == ["INTERNAL"] * 3
    assert wait_until(lambda: not {c.id for c in containers(client, owner_mark())} - before)


def test_a_container_that_does_not_start_leaves_no_connection(client, monkeypatch):
    connections = []

    def attach(*arguments, attach=client.api.attach_socket, **options):
        connections.append(attach(*arguments, **options))
        return connections[-1]

    monkeypatch.setattr(client.api, "attach_socket", attach)
    with pytest.raises(docker.errors.APIError, match="nothing/here"):
        ContainerJail(client, {"image": DEFAULT_IMAGE, "command": ["/nothing/here"], "stdin_open": True})
    assert connections[0].closed
    assert connections[0]._response.raw.closed


def test_no_container_outlives_an_owner_that_was_killed(client):
    code = (
        "from marft_envs.sandbox import Judge, Test\nfrom marft_envs.sandbox.host_machine import owner_mark\n"
        "judge = Judge(backend='docker', workers=1, self_test=False)\njudge.run('', tests=[Test(b'', b'')])\n"
        "print(owner_mark(), flush=True)\njudge.run('while True: pass', tests=[Test(b'', b'')])"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as owner:
        mark = owner.stdout.readline().strip()
        assert len(containers(client, mark)) == 1
        owner.send_signal(signal.SIGKILL)
    assert wait_until(lambda: not containers(client, mark))


def test_what_a_dead_owner_left_is_removed_and_what_a_live_one_has_is_not(client):
    dead, live = owner_mark().rpartition("-")[0] + "-1", f"elsewhere-{owner_mark()}"
    left = [client.containers.create(DEFAULT_IMAGE, "true", labels={OWNER_LABEL: mark}) for mark in (dead, live)]
    try:
        with Judge(backend="docker", workers=1):
            assert not containers(client, dead)
            assert len(containers(client, live)) == 1
    finally:
        for container in left:
            with contextlib.suppress(docker.errors.NotFound):
                container.remove(force=True)


def test_no_engine_says_what_to_do(monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    with pytest.raises(SandboxError, match=r"unix:///nowhere/docker\.sock does not answer; is it running"):
        Judge(backend="docker")


def test_an_engine_without_permission_says_what_to_do(monkeypatch):
    def refuse(**options):
        raise docker.errors.DockerException("Error: ('Connection aborted.', PermissionError(13, 'Permission denied'))")

    monkeypatch.setattr(docker, "from_env", refuse)
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    with pytest.raises(SandboxError, match="join the group docker"):
        Judge(backend="docker")


def test_no_image_and_a_stale_image_say_what_to_do(client):
    with pytest.raises(SandboxError, match="no image 'marft-nothing': run `marft sandbox build --image marft-nothing`"):
        Judge(backend="docker", image="marft-nothing")
    empty = io.BytesIO()
    tarfile.open(fileobj=empty, mode="w").close()
    client.api.import_image_from_data(empty.getvalue(), repository="marft-stale", tag="latest")
    try:
        with pytest.raises(
            SandboxError, match="of another version of marft: run `marft sandbox build --image marft-stale` again"
        ):
            Judge(backend="docker", image="marft-stale")
    finally:
        client.images.remove("marft-stale")
    with pytest.raises(SandboxError, match="no registry can be reached, use `marft sandbox build --rootfs DIR`"):
        build_image("marft-nothing", base="localhost:1/marft-nothing", say=lambda line: None)
