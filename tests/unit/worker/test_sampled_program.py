"""Samples of a program that marks no steps: which of them count, and whose record they are."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_dlperf.core.wire_profile import HostStack
from pytest_dlperf.worker import host_stacks, sampled_program


@pytest.fixture(autouse=True)
def numbered_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers: Iterator[int] = itertools.count()
    sampler = SimpleNamespace(
        start=lambda: None,
        stop=lambda _steps: [HostStack(frames=f"sample {next(numbers)}", seconds=0.3)],
    )
    monkeypatch.setattr(host_stacks, "sampler", lambda *_: sampler)


@pytest.mark.parametrize(
    ("count", "counted"), [(1, [0]), (2, [0, 1]), (3, [0, 1, 2]), (4, [0, 1, 2]), (7, [2, 3, 4])]
)
def test_those_in_the_middle_of_its_life_count(tmp_path: Path, count: int, counted: list[int]):
    samples: list[list[HostStack]] = []
    for _ in range(count):
        record = sampled_program._sampled(os.getpid(), tmp_path, 0, samples, 0.0, 1.0)
    assert record is not None
    frames = {stack["frames"]: stack["seconds"] for stack in record["stacks"]}
    assert frames == {f"sample {n}": pytest.approx(0.3 / len(counted)) for n in counted}


def test_a_sample_of_a_process_that_ended_is_none(tmp_path: Path):
    ended = os.fork()
    if ended == 0:
        os._exit(0)
    os.waitpid(ended, 0)
    assert sampled_program._sampled(ended, tmp_path, 0, [], 0.0, 1.0) is None


def test_a_rank_that_marks_its_steps_keeps_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sampled_program, "_SECONDS", 0.0)
    file = tmp_path / "rank00000.jsonl"
    file.write_text("{}\n", encoding="utf-8")
    sampled_program._write_samples(os.getpid(), tmp_path, 0, 1e-6)
    assert file.read_text(encoding="utf-8") == "{}\n"
