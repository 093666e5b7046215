"""A local HTTP server for what is sent: it records each request, and answers as it is asked to."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any


class Server(http.server.ThreadingHTTPServer):
    """Takes what is posted, and answers with ``status``."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        #: Of each request: the method, the path with its query, and the body, from JSON if it is.
        self.posted: list[tuple[str, str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.status = 200
        #: By method and path without a query; others get an empty body.
        self.answers: dict[tuple[str, str], Any] = {}
        self.hangs = threading.Event()
        self.hangs.set()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def url(self) -> str:
        return f"{self.address}/hooks/s3cr3t-path"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        is_json = self.headers["Content-Type"] == "application/json"
        self._answer(json.loads(body) if is_json else body)

    def do_GET(self) -> None:
        self._answer(None)

    def _answer(self, body: Any) -> None:
        self.server.posted.append((self.command, self.path, body))
        self.server.headers.append(dict(self.headers.items()))
        self.server.hangs.wait(20)
        answer = self.server.answers.get((self.command, self.path.partition("?")[0]))
        self.send_response(self.server.status)
        if self.server.status == 302:
            self.send_header("Location", "/elsewhere")
        text = b"" if answer is None else json.dumps(answer).encode()
        if text:
            self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        pass


@contextlib.contextmanager
def serving() -> Iterator[Server]:
    """Start the server, and end it with what hangs in it."""
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.hangs.set()
        made.shutdown()
        thread.join()
