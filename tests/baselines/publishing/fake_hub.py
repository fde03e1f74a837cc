"""A hub of models on this machine: what `create_repo`, `upload_folder` and `snapshot_download` ask for over HTTP.

All files go into the commit. The Hugging Face Hub takes large ones through Xet instead, whose protocol is not here.
Requests and answers are those of huggingface_hub 2.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

import yaml

COMMIT = "c" * 40


@dataclass
class Repository:
    """A repository: its files and whether it is private."""

    private: bool
    files: dict = field(default_factory=dict)


@dataclass
class FakeHub:
    """A running hub.

    Attributes:
        token: Token that writing needs.
        repositories: Repositories by OWNER/NAME.
        url: Address of the hub.
        unknown: Requests that it does not know.
    """

    token: str
    repositories: dict = field(default_factory=dict)
    url: str = ""
    unknown: list = field(default_factory=list)

    @contextlib.contextmanager
    def running(self):
        server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": self}))
        self.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def commit(self, repository, lines):
        for line in lines:
            kind, value = line["key"], line["value"]
            if kind == "file":
                assert value["encoding"] == "base64"
                repository.files[value["path"]] = base64.b64decode(value["content"])


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: FakeHub

    def log_message(self, *args):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = urlsplit(self.path).path
        if path == "/api/validate-yaml":
            yaml.safe_load(json.loads(body)["content"].split("---\n")[1])
            return self._json({"errors": [], "warnings": []})
        if self.headers.get("Authorization") != f"Bearer {self.hub.token}":
            return self._json({"error": "Invalid username or password."}, 401)
        if path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked['organization']}/{asked['name']}" if asked.get("organization") else asked["name"]
            self.hub.repositories.setdefault(name, Repository(asked.get("visibility") == "private"))
            return self._json({"url": f"{self.hub.url}/{name}", "name": name, "id": name})
        name = "/".join(path.removeprefix("/api/models/").split("/")[:2])
        if path.endswith("/preupload/main"):
            files = [
                {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False}
                for file in json.loads(body)["files"]
            ]
            return self._json({"files": files, "commitOid": COMMIT})
        if path.endswith("/commit/main"):
            self.hub.commit(self.hub.repositories[name], map(json.loads, body.decode().splitlines()))
            return self._json({"commitUrl": f"{self.hub.url}/{name}/commit/{COMMIT}", "commitOid": COMMIT})
        return self._refuse()

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        path = unquote(urlsplit(self.path).path)
        if path.startswith("/api/models/"):
            owner, name, *rest = path.removeprefix("/api/models/").split("/")
            repository = self.hub.repositories.get(f"{owner}/{name}")
            if repository is not None and rest[:1] == ["revision"]:
                files = [{"rfilename": file} for file in repository.files]
                return self._json({"id": f"{owner}/{name}", "sha": COMMIT, "siblings": files})
            if repository is not None and rest[:1] == ["tree"]:
                return self._json([self._entry(file, content) for file, content in repository.files.items()])
        parts = path.split("/")
        if len(parts) > 5 and parts[3] == "resolve":
            repository, file = self.hub.repositories.get("/".join(parts[1:3])), "/".join(parts[5:])
            if repository is not None and file in repository.files:
                return self._content(repository.files[file])
        return self._refuse()

    def _entry(self, path, content):
        return {"type": "file", "path": path, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}

    def _content(self, content):
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _json(self, record, status=200):
        content = json.dumps(record).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _refuse(self):
        self.hub.unknown.append(f"{self.command} {self.path}")
        self._json({"error": "not found"}, 404)
