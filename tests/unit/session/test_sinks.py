"""Sinks: what is sent, that secrets are not shown, and that a broken one is only named."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.verdict import Verdict
from pytest_dlperf.report import json_
from pytest_dlperf.session.sinks import names, trackers
from pytest_dlperf.session.sinks.built_in import chat_text
from pytest_dlperf.session.sinks.deliver import deliver, without_secrets
from tests.helpers.http_server import Server, serving
from tests.helpers.report_builders import case, measured, unmeasured

pytestmark = pytest.mark.newest

RESULTS = json_.render([measured(case(), 100.0)])
FAILED = json_.render(
    [
        replace(
            measured(case(), 90.0, verdict=Verdict.REGRESSED, reason="10 % slower"), failed=True
        ),
        measured(case(layout="1n1g"), 1.0),
    ]
)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as made:
        yield made


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
        "sink takes: sent to https://…@warehouse",
        "sink silent: sent",
    ]
    assert json.loads((package / "taken").read_text()) == json.loads(RESULTS)


def test_broken_sinks_are_named_and_their_secrets_are_not(package: Path):
    told = deliver(["raises", "exits", "dies", "gone", "takes"], RESULTS)
    assert told == [
        "sink raises NOT sent: RuntimeError: no … here",
        "sink exits NOT sent: it ended its process itself",
        "sink dies NOT sent: its process ended with exit code 7",
        "sink gone NOT sent: ModuleNotFoundError: No module named 'not_there'",
        "sink takes: sent to https://…@warehouse",
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


def test_a_chat_gets_failures_and_mentions_nobody():
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


ISSUES = "/repos/our/models/issues"


@pytest.fixture
def forge(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """A server with the issues of one repository, none of them open."""
    monkeypatch.setenv("GITHUB_API_URL", server.address)
    monkeypatch.setenv("GITHUB_REPOSITORY", "our/models")
    monkeypatch.setenv("GITHUB_TOKEN", "hunter2-hunter2")
    monkeypatch.setenv("DLPERF_GATE", "nightly")
    server.answers["GET", ISSUES] = []
    server.answers["POST", ISSUES] = {"html_url": "https://forge/issues/1"}
    server.answers["POST", f"{ISSUES}/7/comments"] = {"html_url": "https://forge/issues/7#c"}
    return server


def test_an_issue_is_opened_for_what_failed(forge: Server):
    assert deliver(["issue"], FAILED) == ["sink issue: sent to https://forge/issues/1"]
    (asked, query, _), (_, _, made) = forge.posted
    assert asked == "GET"
    assert query == f"{ISSUES}?state=open&labels=pytest-dlperf&per_page=100"
    assert made["title"] == "Training performance: nightly"
    assert made["labels"] == ["pytest-dlperf"]
    assert "10 % slower" in made["body"]
    assert "1 case: 1 regressed" in made["body"], "what passed is no part of it"
    assert all(one["Authorization"] == "Bearer hunter2-hunter2" for one in forge.headers)


def test_the_open_issue_is_commented(forge: Server):
    title = "Training performance: nightly"
    others = [{"number": 3, "title": "another"}, {"number": 9, "title": title}]
    forge.answers["GET", ISSUES] = [*others, {"number": 7, "title": title}]
    assert deliver(["issue"], FAILED) == ["sink issue: sent to https://forge/issues/7#c"]
    _, (method, path, made) = forge.posted
    assert (method, path) == ("POST", f"{ISSUES}/7/comments")
    assert set(made) == {"body"}


def test_the_issue_of_a_gate_is_found_by_what_failed_before_it_measured(forge: Server):
    unmeasured_one = json_.render([replace(unmeasured(case(), Verdict.ERROR, "x"), failed=True)])
    for failed in (FAILED, unmeasured_one):
        deliver(["issue"], failed)
    first, second = [made["title"] for method, _, made in forge.posted if method == "POST"]
    assert first == second


def test_nothing_is_sent_to_a_repository_where_nothing_failed(forge: Server):
    assert deliver(["issue"], RESULTS) == ["sink issue: sent to nobody: nothing failed"]
    assert forge.posted == []


def test_a_forge_that_refuses_or_has_no_token_is_said(forge: Server, monkeypatch):
    forge.status = 403
    refused = "sink issue NOT sent: HTTPError: HTTP Error 403: Forbidden"
    assert deliver(["issue"], FAILED) == [refused]
    monkeypatch.delenv("GITHUB_TOKEN")
    assert deliver(["issue"], FAILED) == [
        "sink issue NOT sent: ValueError: GITHUB_TOKEN is not set; put a token that may write "
        "issues there"
    ]


@pytest.mark.parametrize("name", ["wandb", "mlflow", "opentelemetry"])
def test_a_library_that_is_missing_is_named_with_its_extra(name: str, monkeypatch):
    """As an import that is blocked; with the real libraries: ``tests/sinks``."""
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ModuleNotFoundError, match=rf"pip install 'pytest-dlperf\[{name}\]'"):
        getattr(trackers, name)(json.loads(RESULTS))


def test_names_are_checked_before_anything_runs(package: Path):
    assert names.sink_names() == (
        "webhook", "chat", "issue", "wandb", "mlflow", "opentelemetry",
        "dies", "exits", "gone", "hangs", "raises", "silent", "takes",
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
    assert told == "…, …: no at /home/me https://…@h/x"
