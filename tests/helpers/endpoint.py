"""An OpenAI-compatible server on this machine, for tests of what asks one."""

from __future__ import annotations

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def completion(content, usage=None):
    message = {"role": "assistant", "content": content}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    return {"id": "1", "object": "chat.completion", "created": 0, "model": "echo", "choices": [choice]} | (
        {"usage": usage} if usage else {}
    )


class Endpoint(ThreadingHTTPServer):
    """Answers with the last word of the last message; counts what it is asked.

    `script` holds (status, body) pairs that are used up first; a body of bytes is sent as it is.
    `models` is the (status, body) of the list of models, `usage` the token counts of every completion.
    Nothing is answered while `answers` is not set; `together` is a barrier at which requests wait for each other.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers = threading.Event()
        self.answers.set()
        self.script = []
        self.models = None
        self.together = None
        self.usage = None
        self.asked = []
        self.keys = set()
        self.lock = threading.Lock()
        self.at_once = self.most_at_once = 0

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/v1"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each body waits 40 ms for the receipt of its headers

    def do_GET(self):
        self.reply(*(self.server.models or (200, {"object": "list", "data": [{"id": "echo", "object": "model"}]})))

    def do_POST(self):
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.lock:
            server.asked.append(body)
            server.keys.add(self.headers["Authorization"])
            server.at_once += 1
            server.most_at_once = max(server.most_at_once, server.at_once)
            status, answer = server.script.pop(0) if server.script else (200, None)
        server.answers.wait(60)
        if server.together is not None:
            server.together.wait(timeout=30)
        if answer is None:
            answer = completion(body["messages"][-1]["content"].split()[-1], server.usage)
        with server.lock:  # before the answer leaves: the client may ask again at once
            server.at_once -= 1
        self.reply(status, answer)

    def reply(self, status, answer):
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("retry-after-ms", "1")
        self.end_headers()
        with contextlib.suppress(BrokenPipeError):  # the client has given up waiting
            self.wfile.write(data)

    def log_message(self, *arguments):
        pass


@contextlib.contextmanager
def serving():
    """Serve until the end of the block."""
    with Endpoint() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.answers.set()
            server.shutdown()
            thread.join()
