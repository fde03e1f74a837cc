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

import docker
import pytest

from marft_envs.sandbox import Judge, SandboxError, Submission, Test
from marft_envs.sandbox.docker_backend import OWNER_LABEL, connect
from marft_envs.sandbox.image import DEFAULT_IMAGE, build_image
from marft_envs.sandbox.owner import owner_mark

pytestmark = pytest.mark.docker
TESTS = [Test(b"%d" % n, b"%d" % (n + 1)) for n in range(4)]
SLEEPY = "import time\ntime.sleep(0.05)\nprint(int(input()) + 1)"


@pytest.fixture(scope="module")
def client():
    made = connect()
    yield made
    made.close()


def containers(client, mark=None):
    label = OWNER_LABEL if mark is None else f"{OWNER_LABEL}={mark}"
    return client.containers.list(all=True, filters={"label": label}, ignore_removed=True)


def wait_until(condition, timeout_s=20):
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
        assert {name.removeprefix("CAP_") for name in host["CapAdd"]} == {"KILL", "SETGID", "SETUID"}
        assert host["SecurityOpt"] == ["no-new-privileges:true"]
        assert (host["NetworkMode"], host["IpcMode"], host["ReadonlyRootfs"], host["Privileged"]) == (
            "none",
            "none",
            True,
            False,
        )
        assert (host["Binds"], ours.attrs["Mounts"], host["Devices"] or []) == (None, [], [])
        assert list(host["Tmpfs"]) == ["/box"]
        assert (host["PidsLimit"], host["NanoCpus"]) == (64, 10**9)
        assert host["Memory"] == host["MemorySwap"] == 4096 << 20
        assert host["LogConfig"]["Type"] == "none"
        assert config["StdinOnce"]
        assert not any(ours.attrs["NetworkSettings"]["Ports"] or [])
    # the engine may be removing it when we ask it to: then it goes in a moment
    assert wait_until(lambda: not {container.id for container in containers(client, owner_mark())} - before)


def test_killing_containers_in_the_middle_of_a_batch_loses_no_verdict(client):
    before = {container.id for container in containers(client)}
    with Judge(backend="docker", workers=2) as judge:
        submissions = [Submission(f"{SLEEPY}  # {n}", "python", TESTS) for n in range(12)]
        futures = [judge.submit(submission) for submission in submissions]
        futures[1].result()
        for container in containers(client, owner_mark()):
            if container.id not in before:
                container.kill()
        judgements = [future.result() for future in futures]
        assert [judgement.verdict for judgement in judgements] == ["OK"] * 12
        assert 1 <= sum("first attempt" in judgement.details for judgement in judgements) <= 2


class Engine:
    """A way to the engine that can be cut: whoever goes through it sees an engine that was killed."""

    def __init__(self, path, target):
        self.path, self._target = str(path), target
        self.start()

    def start(self):
        self._open, self._threads = [], []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen()
        self._run(self._accept, self._listener)

    def kill(self):
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


def test_killing_the_engine_in_the_middle_of_a_batch_loses_no_verdict(client, tmp_path, monkeypatch):
    target = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock").removeprefix("unix://")
    before = {container.id for container in containers(client)}
    engine = Engine(tmp_path / "engine.sock", target)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{engine.path}")
    with Judge(backend="docker", workers=2) as judge:
        futures = [judge.submit(Submission(f"{SLEEPY}  # {n}", "python", TESTS)) for n in range(8)]
        futures[1].result()
        engine.kill()
        time.sleep(0.2)
        engine.start()
        judgements = [future.result(timeout=60) for future in futures]
        assert {judgement.verdict for judgement in judgements} <= {"OK", "INTERNAL"}
        assert [judgement.verdict for judgement in judgements[4:]].count("OK") >= 1
        assert judge.run(SLEEPY, tests=TESTS).verdict == "OK"
        engine.kill()
        lost = judge.run_many([Submission(SLEEPY, "python", TESTS)] * 3)
        assert [judgement.verdict for judgement in lost] == ["INTERNAL"] * 3
    assert wait_until(lambda: not {c.id for c in containers(client, owner_mark())} - before)


def test_no_container_outlives_an_owner_that_was_killed(client):
    code = (
        "from marft_envs.sandbox import Judge, Test\nfrom marft_envs.sandbox.owner import owner_mark\n"
        "judge = Judge(backend='docker', workers=1)\njudge.run('', tests=[Test(b'', b'')])\n"
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
