"""Measure the first runs of several cases in rounds: run 1 of every case, then run 2, and so on.

So the runs of a case are spread over the whole session, and their spread is that of the machine,
not of a minute. The last run of a case's first look, and all that follow, are launched by its own
test, which judges all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import CaseError, DlperfError
from pytest_dlperf.flow.runner import Runner
from pytest_dlperf.judge.screen import more_runs

if TYPE_CHECKING:
    from pytest_dlperf.flow.bench import Bench


class InRounds(NamedTuple):
    """A case that is measured in rounds."""

    case: Case
    #: Folder of its test, where workloads are found.
    workload_folder: str


def run_rounds(cases: Sequence[InRounds], bench: Bench) -> dict[str, str]:
    """Launch the runs of the first look of ``cases`` in rounds, less the last run of each.

    Returns why a run failed, by case id. What keeps a case from running is left to its test.
    """
    failed: dict[str, str] = {}
    failed_parents: set[str] = set()
    looks = {one: _first_look(one.case, bench) for one in cases}
    number = 1
    while looks := {one: look for one, look in looks.items() if look > number}:
        for one, look in list(looks.items()):
            try:
                _run(one, number, look, bench, failed_parents)
            except CaseError as error:
                failed[one.case.id] = str(error).removeprefix(f"{one.case.id}: ")
                del looks[one]
            except (DlperfError, OSError):
                del looks[one]
        number += 1
    return failed


def _first_look(case: Case, bench: Bench) -> int:
    try:
        return more_runs(case, None, 0, bench.rule_for(case))
    except DlperfError:
        return 0  # noise that cannot be read: its test says so


def _run(one: InRounds, number: int, look: int, bench: Bench, failed_parents: set[str]) -> None:
    case, parent = one.case, one.case.parent()
    bench.check(case)
    with bench.hosts.lease(case, bench.watcher) as lease:
        runner = Runner(bench=bench, lease=lease, workload_folder=one.workload_folder)
        runner.check_nodes(case)
        if parent is not None and parent.id not in failed_parents:
            of_parent = min(look, parent.protocol.runs)
            try:
                runner.runs(parent, min(number, of_parent), planned=of_parent)
            except DlperfError:
                # A note on the speedup, which the case's own test makes
                failed_parents.add(parent.id)
        runner.runs(case, number, planned=look)
