"""`marft view`: what it serves, to whom, and that addresses are names and never paths."""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import socket
import threading
import time
import zlib

import pytest

from baselines.cli.main import main
from baselines.report.server import CONNECTIONS, Server, View
from baselines.report.sources import SourceError
from tests.baselines.report.report_inputs import episode, evaluation, run, write_lines


@contextlib.contextmanager
def serving(folder, host="127.0.0.1"):
    with Server(View(folder), host) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


def ask(server, path, method="GET", **headers):
    """Send a request as it is, without tidying the path; return status, headers and body."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=30)
    connection.putrequest(method, path, skip_host="Host" in headers)
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, answer.headers, body


def test_one_run_is_served_with_its_data(tmp_path):
    with serving(run(tmp_path / "duo")) as server:
        status, headers, _ = ask(server, "/")
        assert (status, headers["Location"]) == (302, "/duo/")
        status, headers, body = ask(server, "/duo/")
        assert status == 200
        assert body.startswith(b"<!doctype html>")
        wanted = ("default-src 'none'", "script-src 'sha256-", "frame-ancestors 'none'", "connect-src 'self'")
        assert all(part in headers["Content-Security-Policy"] for part in wanted)
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        report = json.loads(ask(server, "/duo/report.json")[2])
        assert [one["label"] for one in report["sets"]] == ["training", "before", "after"]
        block = ask(server, "/duo/block-1-0.json")[2]
        assert len(json.loads(zlib.decompress(block, -zlib.MAX_WBITS))) == 12


def test_the_tag_changes_when_the_run_grows(tmp_path):
    path = run(tmp_path / "duo", updates=1)
    with serving(path) as server:
        status, headers, body = ask(server, "/duo/report.json")
        tag = headers["ETag"]
        assert ask(server, "/duo/report.json", If_None_Match=tag)[0] == 304
        with (path / "episodes.jsonl").open("a") as stream:
            stream.write(json.dumps(episode(99)) + "\n")
        status, headers, longer = ask(server, "/duo/report.json", If_None_Match=tag)
        assert status == 200
        assert headers["ETag"] != tag
        assert json.loads(longer)["sets"][0]["total"] == json.loads(body)["sets"][0]["total"] + 1


def test_the_page_follows_a_folder_that_becomes_a_run(tmp_path):
    """As the quickstart writes it: an evaluation, the configuration, update by update, the other evaluation."""
    whole, growing = run(tmp_path / "whole", updates=3), tmp_path / "growing"
    shutil.copytree(whole / "before", growing / "before")

    def shown():
        status, headers, _ = ask(server, "/")
        assert status == 302
        assert ask(server, headers["Location"])[0] == 200
        report = json.loads(ask(server, f"{headers['Location']}report.json")[2])
        side = report["sides"][0]
        sets = {one["label"]: one["total"] for one in report["sets"]}
        evaluations = [one["label"] for one in side["evaluations"]]
        curve = side["curves"].get("team/success", [])
        return headers["Location"], sets, evaluations, len(curve)

    with serving(growing) as server:
        assert shown() == ("/before/", {"before": 12}, ["before"], 0)
        shutil.copy(whole / "config.json", growing)
        assert shown() == ("/growing/", {"before": 12}, ["before"], 0)
        for update in (1, 2, 3):
            for name, lines in (("episodes.jsonl", 4), ("metrics.jsonl", 1)):
                text = (whole / name).read_text().splitlines(keepends=True)
                (growing / name).write_text("".join(text[: update * lines]))
            assert shown() == ("/growing/", {"training": 4 * update, "before": 12}, ["before"], update)
        shutil.copytree(whole / "after", growing / "after")
        assert shown() == ("/growing/", {"training": 12, "before": 12, "after": 12}, ["before", "after"], 3)
        assert ask(server, "/before/report.json")[0] == 404  # a page that is open there goes to "/"


def test_several_runs_are_listed(tmp_path):
    evaluation(tmp_path / "<b>&'\"", 2)
    run(tmp_path / "group" / "duo")
    with serving(tmp_path) as server:
        body = ask(server, "/")[2].decode()
        assert '<a href="/%3Cb%3E%26%27%22/">&lt;b&gt;&amp;&#x27;&quot;</a>' in body
        assert "/group--duo/" in body
        assert "/group--duo--before/" not in body  # inside of a run
        assert ask(server, "/group--duo/report.json")[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd",
        "/duo/../../etc/passwd",
        "/duo/..%2f..%2fetc%2fpasswd",
        "/%2e%2e/",
        "/..%2fduo/",
        "/duo/config.json",
        "/duo/episodes.jsonl",
        "/duo/block-0-99.json",
        "/duo/block-99-0.json",
        "/duo/block--1-0.json",
        "/duo/block-0-0.json/..",
        "/duo%00/",
        "/duo/report.json/",
        "/other/report.json",
    ],
)
def test_nothing_but_the_list_is_served(tmp_path, path):
    secret = tmp_path / "secret.txt"
    secret.write_text("root:")
    with serving(run(tmp_path / "duo")) as server:
        ask(server, "/duo/report.json")
        status, _, body = ask(server, path)
        assert status == 404
        assert b"root:" not in body


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "localhost@evil"])
def test_requests_for_another_host_are_refused(tmp_path, host):
    with serving(run(tmp_path / "duo")) as server:
        assert ask(server, "/duo/report.json", Host=host)[0] == 403
        for good in ("localhost", "127.0.0.1:1", "[::1]:80", "LOCALHOST:5"):
            assert ask(server, "/duo/report.json", Host=good)[0] == 200


def test_two_hosts_are_refused(tmp_path):
    with serving(run(tmp_path / "duo")) as server, socket.create_connection(server.server_address[:2]) as connection:
        connection.sendall(b"GET /duo/ HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n")
        assert b" 403 " in connection.recv(1000).partition(b"\r\n")[0]


def test_many_half_sent_requests_do_not_keep_others_out_and_hold_few_threads(tmp_path):
    with serving(run(tmp_path / "duo")) as server, contextlib.ExitStack() as stack:
        before = threading.active_count()
        for _ in range(200):
            connection = stack.enter_context(socket.create_connection(server.server_address[:2], timeout=30))
            connection.sendall(b"GET /duo/ HTTP/1.1\r\nHost: local")
        begun = time.monotonic()
        assert ask(server, "/duo/")[0] == 200
        assert time.monotonic() - begun < server.waiting.seconds
        assert threading.active_count() - before <= CONNECTIONS


def test_headers_have_a_time_limit_however_they_drip(tmp_path):
    with serving(run(tmp_path / "duo")) as server:
        server.waiting.seconds = 0.3
        with socket.create_connection(server.server_address[:2], timeout=30) as connection:
            begun = time.monotonic()
            with contextlib.suppress(OSError):
                for byte in b"GET /duo/ HTTP/1.1\r\nX-Long: " + b"x" * 1000:
                    connection.sendall(bytes([byte]))
                    time.sleep(0.05)
            assert time.monotonic() - begun < 25  # all bytes take 50 s


def test_it_listens_on_this_machine_unless_asked(tmp_path):
    with serving(run(tmp_path / "duo")) as server:
        assert server.server_address[0] == "127.0.0.1"
    with serving(tmp_path / "duo", "0.0.0.0") as server:
        assert ask(server, "/duo/report.json", Host="lab.example:80")[0] == 200


def test_only_reading_is_possible(tmp_path):
    with serving(run(tmp_path / "duo")) as server:
        assert ask(server, "/duo/", "HEAD")[::2] == (200, b"")
        for method in ("POST", "PUT", "DELETE"):
            assert ask(server, "/duo/", method)[0] == 501


def test_records_that_cannot_be_read_are_an_answer_and_the_server_lives_on(tmp_path):
    path = run(tmp_path / "duo")
    with serving(path) as server:
        write_lines(path / "episodes.jsonl", [episode(0)])
        (path / "alarms.jsonl").write_text("no json\n")
        status, headers, body = ask(server, "/duo/report.json")
        assert status == 500
        assert headers["Content-Type"].startswith("text/plain")
        assert b"alarms.jsonl:1 is not JSON" in body
        (path / "alarms.jsonl").unlink()
        assert ask(server, "/duo/report.json")[0] == 200


def test_a_folder_without_records_and_a_taken_port_are_refused(tmp_path, capsys):
    with pytest.raises(SourceError, match="found no run"):
        View(tmp_path)
    path = run(tmp_path / "duo")
    with serving(path) as server:
        assert main(["view", str(path), "--port", str(server.server_address[1])]) == 1
        assert "give another one" in capsys.readouterr().err
    assert main(["view", str(path), "--port", "70000"]) == 1
