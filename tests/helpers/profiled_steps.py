"""Profiles of a few steps in this process: what they need, and what holds in every framework."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_dlperf.core.wire_profile import ProfileRecord
from pytest_dlperf.worker import host_stacks
from pytest_dlperf.worker.feed import Feed
from pytest_dlperf.worker.frameworks import profiling

#: Of 20 steps, without the shortest and the longest quarter.
WINDOWS = 10


def profile_alike_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave py-spy out, which is tried by itself; a slow machine profiles as many steps."""
    monkeypatch.setattr(host_stacks, "sampler", lambda *_: None)
    monkeypatch.setattr(profiling, "steps_in_profile", lambda _step_s: 20)


def _as_it_is(loss: Any) -> Any:
    return loss


class Framework:
    """What a profile needs of a framework, for one rank on a CPU."""

    def __init__(
        self, device: Any = "cpu", keep: Callable[[Any], Any] = lambda loss: loss
    ) -> None:
        self.job = SimpleNamespace(device=device, world_size=1, rank=0, feed=Feed())
        self.steps = 0
        self._keep = keep

    def synchronise(self) -> None: ...

    def keep_loss(self, loss: Any) -> Any:
        self.steps += 1
        return self._keep(loss)


def calls_of(found: ProfileRecord, folder: Path, *parts: str) -> dict[tuple[str, str], float]:
    """Return the calls a step by path and operator; the parts must be there, and add up."""
    assert "problem" not in found, found["problem"]
    assert len(found["windows"]) == WINDOWS
    for window in found["windows"]:
        assert window["seconds"] == sum(window["parts"].values())
        assert set(parts) <= set(window["parts"])
    assert trace_names(found, folder)
    assert [path.name for path in folder.iterdir()] == ["trace.json.gz"]
    assert "note" not in found
    return {(one["path"], one["name"]): one["calls"] for one in found["operators"]}


def trace_names(found: ProfileRecord, folder: Path) -> set[str]:
    """Return the names of the events in the trace that was written."""
    with gzip.open(folder / found["trace"]) as file:
        return {event.get("name", "") for event in json.load(file)["traceEvents"]}
