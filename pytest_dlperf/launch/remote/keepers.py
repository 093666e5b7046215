"""Keeps the nodes of a case ready: their channels, this package's copy, and their leases."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import tarfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.hosts import Reach
from pytest_dlperf.launch.remote.channel import Channel, pump
from pytest_dlperf.launch.remote.network import identity
from pytest_dlperf.launch.remote.over_hosts import CONNECT_TIMEOUT_S, nonce_of, write_nonce

_POLL_S: Final = 0.2
_BEAT_S: Final = 2.0
#: The far end waits for what runs there to be gone.
_ENDING_S: Final = 10.0


@contextlib.contextmanager
def keep(
    reaches: Sequence[Reach],
    case_id: str,
    *,
    package_folder: Path,
    runs: Sequence[Path] = (),
    leases: bool,
    on_wait: Callable[[str], None],
    own: str = "",
    take_own: Callable[[], None] = lambda: None,
) -> Iterator[None]:
    """Hold the nodes of ``reaches`` for a case, with this package's copy on each.

    With ``leases`` also the lease of each host, taken in the order of their names, so that no two
    sessions wait for each other, and kept until no process of the case's ``runs`` is left;
    ``on_wait`` is told who has one. This host, ``own``, has its place in that order: ``take_own``
    is called there. Raises ``CaseError`` for a node that cannot be reached, and for one host under
    two names.
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
        _check_apart(channels, own)
        packed = ""
        turns = {channel.name: channel for channel in channels}
        for name in sorted({*turns, own} - {""}):
            if name == own:
                take_own()
                continue
            channel = turns[name]
            assert channel.hello is not None
            if not channel.hello["sees"]:
                packed = packed or pack(package_folder)
            channel.send(
                {
                    "kind": "keep",
                    "case": case_id,
                    "lease": leases,
                    "runs": [str(folder) for folder in runs],
                    "package": "" if channel.hello["sees"] else packed,
                    "folder": str(package_folder),
                }
            )
            _await_lease(channel, on_wait)
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


def _check_apart(channels: Sequence[Channel], own: str) -> None:
    """Raise ``CaseError`` if two names lead to one host."""
    names = {identity(): own} if own else {}
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
    """Let the nodes know that somebody is there, whatever the session does."""
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
    """Return that a node cannot be reached, with what its channel's program said."""
    return (
        f"{channel.name} cannot be reached: {channel.words or 'it gave no answer'}; look with "
        f"dlperf doctor --hosts={channel.name}:1, and name ssh's options with --dlperf-ssh"
    )


def _await_lease(channel: Channel, on_wait: Callable[[str], None]) -> None:
    while True:
        for _, kind, data in pump([channel], _POLL_S):
            if kind == "L":
                return
            if kind == "W":
                on_wait(f"{json.loads(data)['holder']} on {channel.name}")
        if channel.is_over or channel.end:
            said: dict[str, Any] = channel.end or {}
            raise CaseError(
                f"{channel.name} was lost while it was made ready: "
                f"{said.get('message') or channel.words or 'it gave no answer'}"
            )
