"""Run one short command on several hosts at once, over channels, and return what it printed."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pytest_dlperf.core.place import Reach
from pytest_dlperf.launch.remote.channel import Channel, pump
from pytest_dlperf.launch.remote.over_hosts import CONNECT_TIMEOUT_S, nonce_of

_POLL_S: Final = 0.2


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
        return f"could not start it: {channel.end['message']}"
    if channel.end["exit_code"] != 0:
        return f"it ended with {channel.end['exit_code']} ({channel.end['end']})"
    return ""
