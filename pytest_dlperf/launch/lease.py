"""The host's lease: one case measures at a time, whatever process it belongs to.

A lock of the file (``flock``) whose descriptor the supervisor holds too: it is free only when
the pytest process and every supervisor that it started are gone. The file is never removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from typing import TYPE_CHECKING, Final

from pytest_dlperf import runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_POLL_S: Final = 0.2


@contextlib.contextmanager
def host_lease(case_id: str, *, on_wait: Callable[[str], None] | None = None) -> Iterator[int]:
    """Hold this host's lease; yield its descriptor.

    Waits without bound while another holds it, and calls ``on_wait`` with who that is: at
    once, and when it changes.
    """
    path = runtime.folder() / "host.lease"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        said = ""
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                holder = holder_of(descriptor)
                if on_wait is not None and holder != said:
                    on_wait(holder)
                    said = holder
                time.sleep(_POLL_S)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "case": case_id}).encode(), 0)
        yield descriptor
    finally:
        # Closing does not unlock while a supervisor still holds a copy: that is the point.
        os.close(descriptor)


def holder_of(descriptor: int) -> str:
    """Return who holds the lease, for people: ``pid 123 (case)``."""
    text = os.pread(descriptor, 4096, 0)
    try:
        holder = json.loads(text)
        return f"pid {holder['pid']} ({holder['case']})"
    except (ValueError, KeyError, TypeError):
        return "another process"  # it has just taken it, and not written yet


def lease_holder() -> str | None:
    """Return who holds this host's lease now; None if it is free."""
    descriptor = os.open(
        runtime.folder() / "host.lease", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
    )
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return holder_of(descriptor)
    else:
        return None
    finally:
        os.close(descriptor)
