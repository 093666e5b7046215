"""Hold the nodes of a case while it measures, over channels with the lease, and ask nodes."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import tarfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.place import Reach
from pytest_dlperf.launch.remote.channel import Channel, pump
from pytest_dlperf.launch.remote.messages import LeaseWait
from pytest_dlperf.launch.remote.network import identity
from pytest_dlperf.launch.remote.over_hosts import CONNECT_TIMEOUT_S, nonce_of, write_nonce

_POLL_S: Final = 0.2
_BEAT_S: Final = 2.0
#: The far end first waits until the processes of the runs there are gone.
_ENDING_S: Final = 10.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Leases:
    """What is called while the leases of a case's hosts are taken."""

    #: Called with the holder and the host of a lease that another session holds.
    on_wait: Callable[[str], None]
    #: Called when it is this host's turn.
    take_this_host: Callable[[], None]


@contextlib.contextmanager
def keep(
    reaches: Sequence[Reach],
    case_id: str,
    *,
    package_folder: Path,
    runs: Sequence[Path] = (),
    this_host: str = "",
    leases: Leases | None = None,
) -> Iterator[None]:
    """Hold the nodes of ``reaches`` for a case, with this package's copy on each.

    With ``leases`` the lease of each host is taken too, in the order of the hosts' names, so that
    no two sessions wait for each other; ``this_host`` is the name of this host, if the case uses
    it. A node keeps its lease until no process of the case's ``runs`` is left. Raises
    ``CaseError`` for a node that cannot be reached, and for one host under two names.
    """
    nonce = nonce_of(package_folder)
    write_nonce(nonce)
    channels = [Channel(reach) for reach in reaches]
    done = threading.Event()
    beats = threading.Thread(target=_beat, args=(channels, done), daemon=True)
    try:
        for channel in channels:
            channel.begin(nonce, reaches[0].name)
        beats.start()
        _await(channels, lambda channel: channel.hello is not None, timeout_s=CONNECT_TIMEOUT_S)
        _check_distinct(channels, this_host)
        packed = ""
        turns = {channel.name: channel for channel in channels}
        for name in sorted({*turns, this_host} - {""}):
            if name == this_host:
                if leases is not None:
                    leases.take_this_host()
                continue
            channel = turns[name]
            assert channel.hello is not None
            if not channel.hello["sees"]:
                packed = packed or pack(package_folder)
            channel.send(
                {
                    "kind": "keep",
                    "case": case_id,
                    "lease": leases is not None,
                    "runs": [str(folder) for folder in runs],
                    "package": "" if channel.hello["sees"] else packed,
                    "folder": str(package_folder),
                }
            )
            _await_lease(channel, leases)
        yield
    finally:
        done.set()
        for channel in channels:
            channel.close()
        end_s = time.monotonic() + _ENDING_S
        while any(not c.is_over for c in channels) and time.monotonic() < end_s:
            pump([c for c in channels if not c.is_over], _POLL_S)
        for channel in channels:
            channel.kill()


def _check_distinct(channels: Sequence[Channel], this_host: str) -> None:
    """Raise ``CaseError`` if two names lead to one host."""
    names = {identity(): this_host} if this_host else {}
    for channel in channels:
        assert channel.hello is not None
        other = names.setdefault(channel.hello["host"], channel.name)
        if other != channel.name:
            raise CaseError(
                f"{other} and {channel.name} are one host; name it once in --dlperf-hosts, with "
                "all its devices"
            )


def pack(folder: Path) -> str:
    """Return the files of ``folder`` as an archive in base64."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        archive.add(folder, arcname=".", filter=_without_caches)
    return base64.b64encode(data.getvalue()).decode("ascii")


def _without_caches(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if "__pycache__" in member.name else member


def _beat(channels: Sequence[Channel], done: threading.Event) -> None:
    """Send heartbeats from a thread, so that no node takes a busy session for lost."""
    while not done.wait(_BEAT_S / 2):
        for channel in channels:
            channel.beat()


def _await(
    channels: Sequence[Channel], is_there: Callable[[Channel], bool], *, timeout_s: float
) -> None:
    deadline_s = time.monotonic() + timeout_s
    while missing := [channel for channel in channels if not is_there(channel)]:
        for channel in missing:
            if channel.is_over or time.monotonic() > deadline_s:
                raise CaseError(not_reached(channel))
        pump([channel for channel in channels if not channel.is_over], _POLL_S)


def not_reached(channel: Channel) -> str:
    """Return the message that a node cannot be reached, with the last output of ssh or srun."""
    return (
        f"{channel.name} cannot be reached: {channel.last_output or 'it gave no answer'}; look "
        f"with dlperf doctor --hosts={channel.name}:1, and name ssh's options with --dlperf-ssh"
    )


def _await_lease(channel: Channel, leases: Leases | None) -> None:
    """Return once the node is ready, and its lease held where ``leases`` are taken."""
    while True:
        for _, kind, data in pump([channel], _POLL_S):
            if kind == "L":
                return
            if kind == "W" and leases is not None:
                wait: LeaseWait = json.loads(data)
                leases.on_wait(f"{wait['holder']} on {channel.name}")
        if channel.is_over or channel.end:
            said = channel.end.get("message") if channel.end else ""
            raise CaseError(
                f"{channel.name} was lost while it was made ready: "
                f"{said or channel.last_output or 'it gave no answer'}"
            )


class Answer:
    """The answer of one host."""

    def __init__(self) -> None:
        self.output = b""
        #: Seconds that its clock is ahead of this host's; None if it was not reached.
        self.clock_ahead_s: float | None = None
        #: Why output is missing or incomplete; empty if the command succeeded.
        self.problem = ""


def ask(
    reaches: Sequence[Reach],
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    prefix: Sequence[str],
    package_folder: Path,
    timeout_s: float,
) -> dict[str, Answer]:
    """Return each host's answer to ``argv``, which is started there behind ``prefix``."""
    answers = {reach.name: Answer() for reach in reaches}
    channels = [Channel(reach) for reach in reaches]
    try:
        sent_s = time.time()
        for channel in channels:
            channel.begin(nonce_of(package_folder), reaches[0].name)
        deadline_s = time.monotonic() + CONNECT_TIMEOUT_S + timeout_s
        while any(not _is_done(c) for c in channels) and time.monotonic() < deadline_s:
            for channel, kind, data in pump([c for c in channels if not c.is_over], _POLL_S):
                answer = answers[channel.name]
                if kind == "H":
                    assert channel.hello is not None
                    # The clock was read between sending and receiving: take the middle.
                    between_s = (
                        max(sent_s, channel.hello["here"] - 1.0) + channel.hello["here"]
                    ) / 2
                    answer.clock_ahead_s = channel.hello["time"] - between_s
                    channel.send(
                        {
                            "kind": "run",
                            "argv": list(argv),
                            "env": dict(env),
                            "prefix": list(prefix),
                            "files": {},
                            "cwd": "",
                            "workdir": str(package_folder.with_name("preflight")),
                            "meet_at": "",
                            "interface_variables": [],
                            "timeout_s": timeout_s,
                            "send_back": False,
                            "turns": None,
                        }
                    )
                elif kind == "O":
                    answer.output += data
        for channel in channels:
            answers[channel.name].problem = _problem(channel)
    finally:
        for channel in channels:
            channel.close()
            channel.kill()
    return answers


def _is_done(channel: Channel) -> bool:
    return channel.is_over or channel.end is not None


def _problem(channel: Channel) -> str:
    if channel.hello is None:
        return f"cannot be reached: {channel.last_output or 'it gave no answer'}"
    if channel.end is None:
        return f"was lost: {channel.last_output or 'it gave no answer'}"
    if channel.end["end"] == "not-started":
        return f"could not start it: {channel.end.get('message', '')}"
    if channel.end["exit_code"] != 0:
        return f"it ended with {channel.end['exit_code']} ({channel.end['end']})"
    return ""
