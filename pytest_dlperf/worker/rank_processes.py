"""Starts one process a rank on this host, and ends all of them when one fails.

Standard library only. When one rank fails, the others get a moment to write their own errors, and
are ended. The supervisor ends processes that are left after that.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Final

_POLL_S: Final = 0.05
#: From the first failure to the end of the others.
_LAST_WORDS_S: Final = 5.0


def run(command: Sequence[str], places: Sequence[Mapping[str, str]]) -> int:
    """Run ``command`` once for each place, the variables of a rank.

    Returns 0, or the exit status of the first that failed.
    """
    ranks = [subprocess.Popen(command, env={**os.environ, **place}) for place in places]
    failed = _wait(ranks, None)
    if failed is None:
        return 0
    index, status = failed
    rank = places[index]["RANK"]
    print(f"rank {rank} ended with {status}; ending the others", flush=True)  # noqa: T201
    _wait(ranks, time.monotonic() + _LAST_WORDS_S)
    for process in ranks:
        process.terminate()
    # As a shell reports a signal.
    return status if status > 0 else 128 - status


def free_addresses(count: int) -> list[str]:
    """Return so many addresses on this host; all open at once, so that none comes twice."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    addresses = [f"127.0.0.1:{listening.getsockname()[1]}" for listening in sockets]
    for listening in sockets:
        listening.close()
    return addresses


def _wait(ranks: list[subprocess.Popen[bytes]], until_s: float | None) -> tuple[int, int] | None:
    """Wait for the end of all, or for ``until_s``; without that, for the first failure too.

    Return the first rank that failed, with its status; None if none did.
    """
    while True:
        statuses = [process.poll() for process in ranks]
        failed = next(((rank, status) for rank, status in enumerate(statuses) if status), None)
        if None not in statuses or (failed is not None and until_s is None):
            return failed
        if until_s is not None and time.monotonic() > until_s:
            return failed
        time.sleep(_POLL_S)
