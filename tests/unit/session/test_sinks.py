"""Sinks: what is sent, that secrets are not shown, and that a broken one is only named."""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.verdict import Verdict
from pytest_dlperf.report import json_
from pytest_dlperf.session.sinks import names
from pytest_dlperf.session.sinks.built_in import chat_text
from pytest_dlperf.session.sinks.deliver import deliver, without_secrets
from tests.helpers.report_builders import case, measured, unmeasured

RESULTS = json_.render([measured(case(), 100.0)])


class Server(http.server.ThreadingHTTPServer):
    """Takes what is posted, and answers with ``status``."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.posted: list[tuple[str, str, Any]] = []
        self.status = 200
        self.hangs = threading.Event()
        self.hangs.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/hooks/s3cr3t-path"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.posted.append((self.command, self.path, json.loads(body)))
        self.server.hangs.wait(20)
        self.send_response(self.server.status)
        if self.server.status == 302:
            self.send_header("Location", "/elsewhere")
        self.end_headers()

    def do_GET(self) -> None:
        self.server.posted.append((self.command, self.path, None))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.hangs.set()
        made.shutdown()
        thread.join()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A distribution with sinks, on the path as pip would install it."""
    (tmp_path / "our_sinks.py").write_text(
        "import json, os, pathlib, subprocess, sys, time\n"
        "def takes(results):\n"
        "    pathlib.Path(os.environ['TAKEN']).write_text(json.dumps(results))\n"
        "    print('not for the summary')\n"
        "    return 'https://me:pass@warehouse'\n"
        "def silent(results): pass\n"
        "def raises(results): raise RuntimeError('no ' + os.environ['OUR_TOKEN'] + '\\nhere')\n"
        "def exits(results): sys.exit(0)\n"
        "def dies(results): os._exit(7)\n"
        "def hangs(results):\n"
        "    child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "    pathlib.Path(os.environ['TAKEN']).write_text(str(child.pid))\n"
        "    time.sleep(60)\n"
    )
    info = tmp_path / "our_sinks-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: our-sinks\nVersion: 1.0\n")
    lines = [f"{name} = our_sinks:{name}" for name in ("takes", "silent", "raises", "exits")]
    lines += ["dies = our_sinks:dies", "hangs = our_sinks:hangs", "gone = not_there:at_all"]
    (info / "entry_points.txt").write_text(
        "[pytest_dlperf.sinks]\n" + "\n".join(lines) + "\nwebhook = our_sinks:raises\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("TAKEN", str(tmp_path / "taken"))
    monkeypatch.setenv("OUR_TOKEN", "hunter2-hunter2")
    return tmp_path


def test_a_sink_of_another_package_gets_the_results_file(package: Path):
    assert deliver(["takes", "silent"], RESULTS) == [
        "sink takes: sent to https://***@warehouse",
        "sink silent: sent",
    ]
    assert json.loads((package / "taken").read_text()) == json.loads(RESULTS)


def test_broken_sinks_are_named_and_their_secrets_are_not(package: Path):
    told = deliver(["raises", "exits", "dies", "gone", "takes"], RESULTS)
    assert told == [
        "sink raises NOT sent: RuntimeError: no *** here",
        "sink exits NOT sent: it ended its process itself",
        "sink dies NOT sent: its process ended with exit code 7",
        "sink gone NOT sent: ModuleNotFoundError: No module named 'not_there'",
        "sink takes: sent to https://***@warehouse",
    ]


def test_a_sink_that_hangs_is_ended_with_what_it_started(package: Path):
    told = deliver(["hangs", "silent"], RESULTS, limit_s=6)
    assert told == [
        "sink hangs NOT sent: it had not ended in time, and was ended",
        "sink silent: sent",
    ]
    child = int((package / "taken").read_text())
    until_s = time.monotonic() + 20
    while is_running(child):
        assert time.monotonic() < until_s
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_webhook_gets_the_results(server: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DLPERF_WEBHOOK", server.url)
    assert deliver(["webhook"], RESULTS) == ["sink webhook: sent to 127.0.0.1"]
    assert server.posted == [("POST", "/hooks/s3cr3t-path", json.loads(RESULTS))]


def test_a_chat_gets_sentences(server: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DLPERF_CHAT_WEBHOOK", server.url)
    assert deliver(["chat"], RESULTS) == ["sink chat: sent to 127.0.0.1"]
    (posted,) = server.posted
    assert posted[2] == {"text": "1 case: 1 passed"}


@pytest.mark.parametrize(
    ("status", "why"), [(500, "Internal Server Error"), (404, "Not Found"), (302, "Found")]
)
def test_a_webhook_that_refuses_is_said(server: Server, monkeypatch, status: int, why: str):
    server.status = status
    monkeypatch.setenv("DLPERF_WEBHOOK", server.url)
    told = f"HTTPError: HTTP Error {status}: {why}"
    assert deliver(["webhook"], RESULTS) == [f"sink webhook NOT sent: {told}"]
    # A redirect would have been a GET, with nothing in it
    assert [one[0] for one in server.posted] == ["POST"]


def test_a_webhook_that_is_down_or_hangs_is_said(server: Server, monkeypatch):
    server.hangs.clear()
    monkeypatch.setenv("DLPERF_WEBHOOK", "http://127.0.0.1:9/s3cr3t-path")
    monkeypatch.setenv("DLPERF_CHAT_WEBHOOK", server.url)
    down, hanging = deliver(["webhook", "chat"], RESULTS, limit_s=6)
    assert down.startswith("sink webhook NOT sent: URLError: <urlopen error")
    assert hanging == "sink chat NOT sent: it had not ended in time, and was ended"
    assert "s3cr3t" not in down


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("", "DLPERF_WEBHOOK is not set; put the address there"),
        ("file:///etc/passwd", "DLPERF_WEBHOOK is not an address of http or https"),
        ("hooks.example/s3cr3t", "DLPERF_WEBHOOK is not an address of http or https"),
    ],
)
def test_an_address_that_is_none_is_said(monkeypatch, address: str, why: str):
    monkeypatch.setenv("DLPERF_WEBHOOK", address)
    assert deliver(["webhook"], RESULTS) == [f"sink webhook NOT sent: ValueError: {why}"]


def test_a_chat_is_told_of_failures_and_mentions_nobody():
    reason = "12 % slower <!channel> @here & more\n    Traceback"
    outcomes = [unmeasured(case(layout=f"1n{n}g"), Verdict.ERROR, reason) for n in range(1, 9)] + [
        measured(case(batch_size=n), 1.0, verdict=Verdict.REGRESSED, reason="x" * 999)
        for n in (1, 2, 4)
    ]
    text = chat_text(json.loads(json_.render([*outcomes, measured(case(), 1.0)])))
    first, *failures, last = text.splitlines()
    assert first == "12 cases: 8 error, 1 passed, 3 regressed"
    assert failures[0].endswith(": 12 % slower &lt;!channel&gt; @\u200bhere &amp; more")
    assert len(failures) == 10
    assert max(map(len, failures)) < 400
    assert last == "and 1 more"


def test_names_are_checked_before_anything_runs(package: Path):
    assert names.known() == (
        "webhook", "chat", "dies", "exits", "gone", "hangs", "raises", "silent", "takes",
    )  # fmt: skip
    names.check(["webhook", "takes"])
    with pytest.raises(UsageError, match=r"--dlperf-sink=mail: no such sink; known are webhook"):
        names.check(["takes", "mail"])


def test_our_own_sink_is_not_replaced_by_a_package(package: Path):
    assert names.load("webhook").__module__ == "pytest_dlperf.session.sinks.built_in"


def test_secrets_are_masked():
    environ = {
        "MY_API_KEY": "abcdefgh",
        "OTHER_TOKEN": "abcdefghij",
        "A_SECRET": "no",
        "HOME": "/home/me",
    }
    told = without_secrets("abcdefghij, abcdefgh: no\n at /home/me https://u:p@h/x", environ)
    assert told == "***, ***: no at /home/me https://***@h/x"
