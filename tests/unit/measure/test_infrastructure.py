"""Which failed launches are the infrastructure's; lines as torchrun, ssh and mpirun print them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_dlperf.core.run import EndReason, RunEnd
from pytest_dlperf.measure.infrastructure import launch_failure
from pytest_dlperf.measure.records import read_records
from tests.helpers.record_files import rank_records, write

EXITED, TIMEOUT = RunEnd(reason=EndReason.EXITED), RunEnd(reason=EndReason.TIMEOUT)
GONE, NOT_STARTED = EndReason.NODE_GONE, EndReason.NODE_NOT_STARTED
PORT = (
    "Traceback (most recent call last):\n"
    "torch.distributed.DistNetworkError: The server socket has failed to listen on any local "
    "network address. port: 49863, useIpv6: false, code: -98, name: EADDRINUSE, message: address "
    "already in use\n"
)
RENDEZVOUS = "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError\n"
STORE = (
    "torch.distributed.DistNetworkError: The client socket has timed out after 6000ms while "
    "trying to connect to (127.0.0.1, 29871).\n"
)
REFUSED = "ssh: connect to host node2 port 22: Connection refused\n"
CLOSED = "kex_exchange_identification: Connection closed by remote host\n"
ROOT_CAUSE = (
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n"
    "  rank      : 1 (local_rank: 1)\n  exitcode  : 1 (pid: 24)\n"
)


#: One line, or many, that nearly match: patterns must take no time that grows with their square.
LONG = """
import sys
from pathlib import Path
from pytest_dlperf.measure.exhausted import is_for_room, on_device
from pytest_dlperf.measure.infrastructure import _SIGNS, _lines, _raised

kernel = "CUDA error: device-side assert triggered"
log = Path(sys.argv[1])
for text in ("x", "x:1: ", " ", "[", "[\\n", "[a]: ", "a.", "Error", "OOM when allocating ",
             "DistStoreError: Timed out ", "ssh_exchange_identification: ", "CUDA error",
             "x:1: : block: [", ": block: [Assertion `"):
    text *= 500_000 // len(text)
    log.write_text(text)
    assert on_device(text, log) == ""
    assert on_device(f"{kernel} {text}", log)
    _raised(text)
    assert not any(sign.pattern.search(line) for line in _lines(text) for sign in _SIGNS)
    is_for_room(text[:8192])
"""


def failed(
    folder: Path,
    log: str,
    records: list[list[dict[str, Any]]] | None = None,
    *,
    is_program: bool = False,
    **run: Any,
) -> str:
    ended = write(folder, records or [])
    ended = replace(ended, **{"exit_code": 1, "end": EXITED, **run})
    return launch_failure(ended, read_records(folder), log, is_program=is_program)


def started(rank: int, *more: dict[str, Any]) -> list[dict[str, Any]]:
    return [rank_records(rank)[0], *more]


def failure(message: str, code: str = "exception") -> dict[str, Any]:
    return {"record": "failure", "code": code, "message": message, "time": 1.0}


@pytest.mark.parametrize("is_program", [False, True])
@pytest.mark.parametrize(
    ("log", "words"),
    [
        (PORT, "a port was taken: torch.distributed.DistNetworkError: The server socket"),
        (RENDEZVOUS, "the rendezvous timed out: "),
        (STORE, "the store where ranks meet was not reached: "),
        (REFUSED, f"ssh did not get through: {REFUSED.strip()}"),
        (CLOSED, "ssh did not get through: "),
    ],
)
def test_what_the_infrastructure_fails(tmp_path: Path, log: str, words: str, is_program: bool):
    assert failed(tmp_path, f"starting\n{log}", is_program=is_program).startswith(words)


def test_a_rank_that_did_not_meet_the_others(tmp_path: Path):
    text = PORT.splitlines()[1]
    records = [started(0, failure(text.partition(".")[2])), started(1)]
    assert failed(tmp_path, PORT + ROOT_CAUSE, records).startswith("a port was taken")


@pytest.mark.parametrize(
    ("log", "records", "run"),
    [
        # A training that had begun.
        (PORT, [rank_records(0)[:3], rank_records(1)[:3]], {}),
        # Code that raised: a check of a rank, its building, its meeting for another reason.
        (PORT, [started(0, failure("no data", "check")), started(1)], {}),
        (PORT, [[*rank_records(0)[:2], failure(STORE)]], {}),
        (STORE, [started(0, failure("ValueError: boom")), started(1, failure(STORE))], {}),
        # A rank that hangs before the others meet it, and one that was killed.
        (STORE, [started(0), started(1, failure(STORE))], {}),
        (f"{STORE}exitcode  : -9 (pid: 7)\nSignal 9 (SIGKILL) received", [], {}),
        # Ends that are no launch's.
        (PORT, [], {"timed_out": True, "end": TIMEOUT, "exit_code": -15}),
        (PORT, [], {"exit_code": -9}),
        (PORT, [], {"exit_code": 0}),
        (PORT, [], {"exit_code": None, "end": RunEnd(reason=EndReason.NOT_STARTED)}),
        (PORT, [], {"end": RunEnd(reason=EndReason.EXITED, unkilled=(7,))}),
        # To repeat cannot help.
        (f"{REFUSED}root@node3: Permission denied (publickey).", [], {"exit_code": 255}),
        ("ssh: Could not resolve hostname nodo2: Name or service not known", [], {}),
        # Nothing is known of why.
        ("something else", [], {}),
        ("something else", [], {"exit_code": 255}),
    ],
)
def test_what_is_not_repeated(
    tmp_path: Path, log: str, records: list[list[dict[str, Any]]], run: dict[str, Any]
):
    assert failed(tmp_path, log, records, **run) == ""


@pytest.mark.parametrize(
    "log",
    [
        "Traceback (most recent call last):\nOSError: [Errno 98] Address already in use\n",
        f"[rank0]: ValueError: boom\n{STORE}",
        f"[default1]:json.decoder.JSONDecodeError: Expecting value\n{PORT}",
        # It may have come in the midst of the training, of which no record tells.
        "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: it has failed\n",
    ],
)
def test_a_program_that_raised_is_not_repeated(tmp_path: Path, log: str):
    assert failed(tmp_path, log, is_program=True) == ""


@pytest.mark.parametrize(
    ("reason", "message", "retried"),
    [
        (GONE, "node2 cannot be reached: ssh: connect to host node2 port 22: No route", True),
        (GONE, "node2 was lost, 16 s after it was heard last", True),
        (GONE, "node2 cannot be reached: Host key verification failed.", False),
        (NOT_STARTED, "node2 could not start the launcher: it was lost to /p", False),
    ],
)
def test_nodes_that_are_gone(tmp_path: Path, reason: EndReason, message: str, retried: bool):
    end = RunEnd(reason=reason, message=message)
    assert failed(tmp_path, "", exit_code=1, end=end) == (message if retried else "")
    trained = [[{"record": "first_step", "rank": 0, "time": 1.0}]]
    assert failed(tmp_path, "", trained, exit_code=1, end=end) == ""


def test_long_lines_take_no_time_that_grows_with_their_square(tmp_path: Path):
    command = [sys.executable, "-c", LONG, str(tmp_path / "output.log")]
    assert subprocess.run(command, timeout=300, check=False).returncode == 0
