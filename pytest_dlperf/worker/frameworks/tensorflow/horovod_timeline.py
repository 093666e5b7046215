"""The timeline that Horovod writes on its first rank: events of every tensor, nested."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

#: Horovod's writer is a thread of its own.
_WRITTEN_WITHIN_S: Final = 2.0


def read(path: Path) -> list[Mapping[str, Any]]:
    """Return the events of a timeline once it is whole; none if it never is."""
    end_s = time.monotonic() + _WRITTEN_WITHIN_S
    while time.monotonic() < end_s:
        try:
            events: list[Mapping[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            time.sleep(0.01)  # not written yet
            continue
        return events
    return []


def seconds_in_all_reduce(events: Iterable[Mapping[str, Any]]) -> float | None:
    """Return the seconds in which at least one all-reduce went on; None if there was none.

    Activities of a tensor (``pid``) are nested; waiting for other ranks is one of its own.
    """
    open_: dict[int, list[tuple[str, float]]] = {}
    spans: list[tuple[float, float]] = []
    for event in events:
        stack = open_.setdefault(int(event.get("pid", 0)), [])
        if event["ph"] == "B":
            stack.append((str(event["name"]), float(event["ts"])))
        elif event["ph"] == "E" and stack:
            name, begin_us = stack.pop()
            if name == "ALLREDUCE":
                spans.append((begin_us, float(event["ts"])))
    if not spans:
        return None
    total_us = until_us = 0.0
    for begin_us, end_us in sorted(spans):
        total_us += max(0.0, end_us - max(begin_us, until_us))
        until_us = max(until_us, end_us)
    return total_us / 1e6
