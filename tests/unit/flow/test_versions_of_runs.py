"""Which version a watcher is told that a run of pairs measures."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_dlperf.core.option_names import OF_PYTEST
from pytest_dlperf.flow import ab
from tests.helpers.judge_builders import case


class Told:
    """A watcher that keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def run_starts(self, _case: object, number: int, of: int, version: str = "") -> None:
        self.lines.append(f"starts {number}/{of} {version}".rstrip())

    def run_ended(self, _case: object, run: str) -> None:
        self.lines.append(f"ended {run}")


def test_while_both_versions_train_none_is_named(monkeypatch: pytest.MonkeyPatch):
    told = Told()
    policy = SimpleNamespace(options=OF_PYTEST, pairs="", rule=None)
    bench = SimpleNamespace(folder=SimpleNamespace(name="s"), policy=policy, watcher=told)
    runners: Any = dict.fromkeys((ab.NOW, ab.BEFORE), SimpleNamespace(bench=bench))
    arms: Any = {ab.NOW: SimpleNamespace(name="here"), ab.BEFORE: SimpleNamespace(name="main")}
    runs = {ab.NOW: SimpleNamespace(summary="now"), ab.BEFORE: SimpleNamespace(summary="before")}

    def launch(*_arguments: object, **_more: object) -> dict[str, Any]:
        told.lines.append("both train")
        return runs

    monkeypatch.setattr(ab, "launch_in_turns", launch)
    monkeypatch.setattr(ab, "check_readers", lambda *_: None)
    trees: Any = None
    pairs = ab._Pairs(case("1n1g"), arms, runners, trees)
    pairs._report(pairs._pair(3, scaling=False), 1, 3)
    assert told.lines == [
        "starts 1/6", "both train",
        "starts 1/6 main", "ended before", "starts 2/6 here", "ended now",
    ]  # fmt: skip
