"""A hub of made-up repositories on this machine, for the hub's own clients.

It answers what ``huggingface_hub`` asks of the hub, in the same shapes: information about a
repository, its tree in pages, its files with their checks, by range and through a redirect,
names that match a search, and GitHub's raw files. What was asked is kept in ``asked``.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

MAIN = "a" * 40
LARGE = 1000  # bytes from which a file is kept as git-lfs does, on another path
PAGE = 3  # entries of a tree on one page

_INFO = re.compile(r"/api/(models|datasets)/([^/]+/[^/]+)(?:/revision/([^/]+))?")
_TREE = re.compile(r"/api/(models|datasets)/([^/]+/[^/]+)/tree/([^/]+)(?:/(.*))?")
_FILE = re.compile(r"/(datasets/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)")
_SEARCH = re.compile(r"/api/(models|datasets)")


@dataclass
class Repository:
    """Files by commit and path; a file of so many bytes that are not there is an ``int``."""

    commits: dict[str, dict[str, bytes | int]]
    branches: dict[str, str] = field(default_factory=lambda: {"main": MAIN})
    gated: int = 0  # HTTP status without access


@dataclass
class Hub:
    """What the server holds and how it behaves; tests change it while it runs."""

    url: str = ""
    repositories: dict[tuple[str, str], Repository] = field(default_factory=dict)
    raw: dict[str, bytes] = field(default_factory=dict)
    asked: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    fails: list[tuple[str, int, dict[str, str]]] = field(default_factory=list)
    cuts: dict[str, int] = field(default_factory=dict)
    slow: float = 0.0  # seconds before the bytes of a large file

    def add(self, name: str, files: dict[str, bytes | int], kind: str = "models", **options):
        """A repository with one commit on its main branch."""
        commit = options.pop("commit", MAIN)
        made = Repository({commit: files}, {"main": commit}, **options)
        self.repositories[kind, name] = made
        return made

    def fail(self, path: str, status: int, times: int = 1, **headers: str) -> None:
        """The next ``times`` requests whose path holds ``path`` are answered so."""
        headers = {key.replace("_", "-"): value for key, value in headers.items()}
        self.fails += [(path, status, headers)] * times

    def digest(self, path: str) -> str:
        """The hash under which a large file's bytes are kept."""
        held = (files for each in self.repositories.values() for files in each.commits.values())
        return next(_digest(files[path]) for files in held if path in files)

    def fetched(self) -> list[str]:
        """Names of the files whose bytes were asked for, in order."""
        names = {
            f"/cdn/{_digest(content)}": path
            for repository in self.repositories.values()
            for files in repository.commits.values()
            for path, content in files.items()
        }
        asked = [path for verb, path, _ in self.asked if verb == "GET"]
        plain = re.compile(r".*/resolve/[^/]+/")
        return [
            names.get(path) or plain.sub("", path)
            for path in asked
            if path in names or plain.match(path)
        ]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, *args) -> None:
        """Nothing: what was asked is in ``Hub.asked``."""

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        asked = urlsplit(self.path)
        path, query = unquote(asked.path), parse_qs(asked.query)
        headers = {key.lower(): value for key, value in self.headers.items()}
        self.hub.asked.append((self.command, path, headers))
        for number, (part, status, headers) in enumerate(self.hub.fails):
            if part in path:
                del self.hub.fails[number]
                return self._send(status, b'{"error": "as the test asked"}', headers)
        routes: list[tuple[re.Pattern, Callable]] = [
            (_TREE, self._tree),
            (_INFO, self._info),
            (_SEARCH, self._search),
            (_FILE, self._file),
        ]
        for pattern, answer in routes:
            found = pattern.fullmatch(path)
            if found:
                return answer(*found.groups(), query=query)
        if path.startswith("/cdn/"):
            time.sleep(self.hub.slow)
            return self._bytes(self._blob(path.removeprefix("/cdn/")), path)
        if path in self.hub.raw:
            return self._bytes(self.hub.raw[path], path)
        return self._send(404, b"404: Not Found", {})

    def _commit(self, kind: str, name: str, revision: str):
        """Repository, commit and files; or ``None``, after the refusal was sent."""
        repository = self.hub.repositories.get((kind, name))
        if repository is None:
            self._refuse(401, "RepoNotFound", "Invalid username or password.")
            return None
        commit = repository.branches.get(revision, revision)
        if commit not in repository.commits:
            self._refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
            return None
        return repository, commit, repository.commits[commit]

    def _info(self, kind, name, revision, query) -> None:
        found = self._commit(kind, name, revision or "main")
        if found:
            _, commit, files = found
            listed = [{"rfilename": path} for path in files]
            self._json({"id": name, "sha": commit, "siblings": listed, "private": False})

    def _tree(self, kind, name, revision, folder, query) -> None:
        found = self._commit(kind, name, revision)
        if not found:
            return
        under = f"{folder}/" if folder else ""
        files = {path: held for path, held in found[2].items() if path.startswith(under)}
        if not files:
            return self._refuse(404, "EntryNotFound", f"{folder} does not exist")
        if query.get("recursive", ["False"])[0].lower() == "true":
            entries = [_entry(path, content) for path, content in files.items()]
        else:
            names = {path: path.removeprefix(under).partition("/") for path in files}
            entries = [_entry(path, files[path]) for path, name in names.items() if not name[1]]
            inner = sorted({under + name[0] for name in names.values() if name[1]})
            entries += [
                {"type": "directory", "oid": MAIN, "size": 0, "path": each} for each in inner
            ]
        start = int(query.get("cursor", ["0"])[0])
        headers = {}
        if start + PAGE < len(entries):
            here = self.path.split("?")[0]
            asked = query.get("recursive", ["False"])[0]
            following = f"{self.hub.url}{here}?recursive={asked}&cursor={start + PAGE}"
            headers["Link"] = f'<{following}>; rel="next"'
        self._json(entries[start : start + PAGE], headers)

    def _search(self, kind, query) -> None:
        names = [name for each, name in self.hub.repositories if each == kind]
        if "author" in query:
            names = [name for name in names if name.split("/")[0] == query["author"][0]]
        if "search" in query:
            names = [name for name in names if query["search"][0] in name]
        self._json([{"id": name, "modelId": name} for name in names])

    def _file(self, datasets, name, revision, path, query) -> None:
        found = self._commit("datasets" if datasets else "models", name, revision)
        if not found:
            return
        repository, commit, files = found
        if repository.gated and self.headers.get("Authorization") is None:
            message = f"Access to model {name} is restricted."
            return self._refuse(repository.gated, "GatedRepo", message)
        if path not in files:
            return self._refuse(404, "EntryNotFound", "Entry not found", {"X-Repo-Commit": commit})
        content = files[path]
        digest, size = _digest(content), _size(content)
        headers = {"X-Repo-Commit": commit, "ETag": f'"{digest}"'}
        if size >= LARGE:
            headers |= {"X-Linked-Size": str(size), "X-Linked-Etag": f'"{digest}"'}
            elsewhere = self.hub.url.replace("127.0.0.1", "localhost")  # another host
            headers["Location"] = f"{elsewhere}/cdn/{digest}?X-Amz-Signature=secret"
            return self._send(302, b"", headers)
        return self._bytes(content, path, headers)

    def _blob(self, digest: str) -> bytes:
        for repository in self.hub.repositories.values():
            for files in repository.commits.values():
                for content in files.values():
                    if isinstance(content, bytes) and _digest(content) == digest:
                        return content
        raise AssertionError("the bytes of a file that is only listed were asked for")

    def _bytes(self, content: bytes, path: str, headers: dict | None = None) -> None:
        headers, status = dict(headers or {}), 200
        given = self.headers.get("Range")
        if given:
            start = int(re.fullmatch(r"bytes=(\d+)-", given)[1])
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
            content, status = content[start:], 206
        cut = next((key for key in self.hub.cuts if key in path), None)
        if cut and self.command == "GET":
            kept = self.hub.cuts.pop(cut)
            self._send(status, content[:kept], headers, length=len(content))
            self.close_connection = True
            return
        self._send(status, content, headers)

    def _refuse(self, status: int, code: str, message: str, headers: dict | None = None) -> None:
        told = {"X-Error-Code": code, "X-Error-Message": message} | (headers or {})
        self._send(status, json.dumps({"error": message}).encode(), told)

    def _json(self, value, headers: dict | None = None) -> None:
        told = {"Content-Type": "application/json"} | (headers or {})
        self._send(200, json.dumps(value).encode(), told)

    def _send(self, status: int, body: bytes, headers: dict, length: int | None = None) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


def serve() -> tuple[Hub, ThreadingHTTPServer]:
    """Start one on a free port; ``shutdown`` and ``server_close`` end it."""
    hub = Hub()
    handler = type("Bound", (Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    return hub, server


def _size(content: bytes | int) -> int:
    return content if isinstance(content, int) else len(content)


def _digest(content: bytes | int) -> str:
    data = content if isinstance(content, bytes) else str(content).encode()
    return hashlib.sha256(data).hexdigest()


def _entry(path: str, content: bytes | int) -> dict:
    size, digest = _size(content), _digest(content)
    entry = {"type": "file", "oid": digest[:40], "size": size, "path": path}
    if size >= LARGE:
        entry["lfs"] = {"oid": digest, "size": size, "pointerSize": 134}
    return entry
