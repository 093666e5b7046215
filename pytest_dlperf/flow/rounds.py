"""Measure the first runs of several cases in rounds: run 1 of every case, then run 2, and so on.

So the runs of a case are spread over the whole session, and their spread is that of the machine,
not of a minute. The last run of a case's first look, and all that follow, are launched by its own
test, which judges all of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import CaseError, DlperfError
from pytest_dlperf.core.writable import unforeseen
from pytest_dlperf.flow.budget import Budget
from pytest_dlperf.flow.confirm import can_decide
from pytest_dlperf.flow.runner import Runner
from pytest_dlperf.judge.screen import more_runs
from pytest_dlperf.store.history import notes

if TYPE_CHECKING:
    from pytest_dlperf.flow.bench import Bench


class InRounds(NamedTuple):
    """A case that is measured in rounds."""

    case: Case
    #: Folder of its test, where workloads are found.
    workload_folder: str


def within_budget(cases: Sequence[InRounds], bench: Bench, budget: Budget) -> list[InRounds]:
    """Return the first of ``cases`` for whose first looks the budget has time, by earlier runs.

    None after one that was never measured here: how long it takes is not known.
    """
    run_times = notes.read_run_times(bench.workdir)
    fitting: list[InRounds] = []
    parents: set[str] = set()
    left_s = budget.left_s
    for entry in cases:
        look = more_runs(entry.case, None, 0)
        parts = [(entry.case, look)]
        parent = entry.case.parent()
        if parent is not None and parent.id not in parents:
            parents.add(parent.id)
            parts.append((parent, min(look, parent.protocol.runs)))
        for case, count in parts:
            run_s = run_times.get(notes.run_key(case, bench.hosts.machine_class(case)))
            if run_s is None:
                return fitting
            left_s -= count * run_s
        if left_s < 0:
            return fitting
        fitting.append(entry)
    return fitting


def run_rounds(
    cases: Sequence[InRounds],
    bench: Bench,
    *,
    most_failures: int = 0,
    ends_session: tuple[type[BaseException], ...] = (KeyboardInterrupt,),
) -> None:
    """Launch the runs of the first look of ``cases`` in rounds, less the last run of each.

    The session's processes share them. Why a run failed is kept with the runs; after
    ``most_failures`` failed cases (0: any number) no more are launched. What keeps a case from
    running is left to its test. Any exception is its case's, but those of ``ends_session``.
    """
    failures = 0
    failed_parents: set[str] = set()
    looks = {entry: more_runs(entry.case, None, 0) for entry in cases}
    number = 1
    while looks := {entry: look for entry, look in looks.items() if look > number}:
        for entry, look in list(looks.items()):
            try:
                with _noting_unforeseen(entry.case, bench, ends_session):
                    _run(entry, number, look, bench, failed_parents)
            except (DlperfError, OSError):
                del looks[entry]
                continue
            if bench.runs.failure(entry.case):
                del looks[entry]
                failures += 1
                if failures == most_failures:
                    return
        number += 1


def _run(entry: InRounds, number: int, look: int, bench: Bench, failed_parents: set[str]) -> None:
    case, parent = entry.case, entry.case.parent()
    with _noting_failure(case, bench):
        bench.check(case)
    if bench.runs.failure(case):
        return
    with bench.hosts.lease(case, bench.watcher) as lease, _noting_failure(case, bench):
        if bench.runs.failure(case):
            return  # in another process of the session
        runner = Runner(
            bench=bench,
            lease=lease,
            workload_folder=entry.workload_folder,
            before_pairs=_before_pairs(case, bench),
        )
        runner.check_nodes(case)
        if parent is not None and parent.id not in failed_parents:
            of_parent = min(look, parent.protocol.runs)
            try:
                runner.runs(parent, min(number, of_parent), planned=of_parent)
            except DlperfError:
                # A note on the speedup, which the case's own test makes
                failed_parents.add(parent.id)
        runner.runs(case, number, planned=look)


def _before_pairs(case: Case, bench: Bench) -> bool:
    try:
        return can_decide(case, bench, bench.baseline(case))
    except DlperfError:
        return False  # a baseline that cannot be read: its test says so


@contextlib.contextmanager
def _noting_failure(case: Case, bench: Bench) -> Iterator[None]:
    """Keep why a run failed, while no other process can launch it again."""
    try:
        yield
    except CaseError as error:
        bench.runs.fail(case, error.words(below=case.id))


@contextlib.contextmanager
def _noting_unforeseen(
    case: Case, bench: Bench, ends_session: tuple[type[BaseException], ...]
) -> Iterator[None]:
    """Keep an error that was not foreseen as the failure of ``case``: the others go on."""
    try:
        yield
    except (DlperfError, OSError):
        raise
    except BaseException as error:  # any: it ends this case, and no other one
        if isinstance(error, ends_session):
            raise
        bench.runs.fail(case, unforeseen(error))
