from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from pytest_dlperf.store.history.session_runs import make_session_folder

ATTEMPTS = range(50)


def make(bases: list[Path], name: str, go: object) -> None:
    try:
        for base in bases:
            go.wait()  # type: ignore[attr-defined]
            make_session_folder(base, name)
    except BaseException:
        go.abort()  # type: ignore[attr-defined]  # the others would wait for this one
        raise


def test_workers_of_one_session_make_its_folder_at_once(tmp_path: Path):
    context = multiprocessing.get_context("spawn")
    go = context.Barrier(4)
    bases = [tmp_path / str(attempt) / ".dlperf" for attempt in ATTEMPTS]
    workers = [context.Process(target=make, args=(bases, "s", go)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0, 0]
    assert {(base / ".gitignore").read_text() for base in bases} == {"*\n"}


def test_a_file_in_its_place_is_an_error(tmp_path: Path):
    (tmp_path / ".dlperf").write_text("mine")
    with pytest.raises(OSError, match="Not a directory"):
        make_session_folder(tmp_path / ".dlperf", "s")
