from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from pytest_dlperf.store.history.session_runs import make_session_folder


def make(base: str, name: str, go: object) -> None:
    go.wait()  # type: ignore[attr-defined]
    make_session_folder(Path(base), name)


def test_workers_of_one_session_make_its_folder_at_once(tmp_path: Path):
    context = multiprocessing.get_context("spawn")
    for attempt in range(5):
        go = context.Barrier(4)
        base = tmp_path / str(attempt) / ".dlperf"
        workers = [context.Process(target=make, args=(str(base), "s", go)) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert [worker.exitcode for worker in workers] == [0, 0, 0, 0]
        assert (base / ".gitignore").read_text() == "*\n"


def test_a_file_in_its_place_is_an_error(tmp_path: Path):
    (tmp_path / ".dlperf").write_text("mine")
    with pytest.raises(OSError, match="Not a directory"):
        make_session_folder(tmp_path / ".dlperf", "s")
