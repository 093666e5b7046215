"""What happened to the cases of a session: one record for each, by the case's id.

The part that measures and the part that reports write into it, in one process or in two: what a
worker of pytest-xdist knows reaches the process with the terminal on test reports.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.codec import decode, encode
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.session.case_items import selected_of

#: On the first report of an xdist worker: all cases that the session is to run.
PLANNED: Final = "dlperf_planned"
_PLANNED_FILE: Final = "planned.json"


@dataclass(frozen=True, kw_only=True)
class Planned:
    """The test of a case that is to run."""

    node_id: str
    #: Of pytest: file, line from 0, name.
    location: tuple[str, int | None, str]
    case: Case
    #: Folder of the test, where workloads are found.
    folder: str


@dataclass(kw_only=True)
class CaseRecord:
    """What one process knows of one case; a one-device parent has a record too."""

    #: Why collection left it out; empty where it did not.
    left_out: str = ""
    #: Its outcome in the results file of a session that was interrupted; None without one.
    before: Outcome | None = None
    #: Its test; None where the session runs none.
    planned: Planned | None = None
    #: What the ranks of its runs in rounds inherited; None without such runs.
    inherited: Mapping[str, str] | None = None
    #: What ``dlperf.run()`` came to in the last attempt of its test; None before its end.
    attempt: Outcome | None = None
    #: Why the process of its test was gone; empty where it was not.
    crashed: str = ""
    #: The worker of pytest-xdist that ran its test: JUnit tells reports apart by it.
    worker: Any = None
    #: Whether its test has come to its end, with or without an outcome.
    has_ended: bool = False
    #: Its outcome as test reports have it, that of the last attempt; None before the first.
    outcome: Outcome | None = None


class CaseRecords:
    """The records of a session's cases."""

    def __init__(self) -> None:
        self._records: defaultdict[str, CaseRecord] = defaultdict(CaseRecord)
        #: Ids of cases by the node id of their test.
        self._ids: dict[str, str] = {}
        #: Ids of cases with an outcome, in the order in which they came.
        self._reported: dict[str, None] = {}
        #: Tests that an xdist worker has still to announce.
        self._unannounced: Sequence[Planned] = ()

    def __getitem__(self, case_id: str) -> CaseRecord:
        return self._records[case_id]

    def record_of_test(self, node_id: str) -> CaseRecord | None:
        """Return the record of the case that a planned test runs; None for any other test."""
        case_id = self._ids.get(node_id)
        return None if case_id is None else self._records[case_id]

    def plan(self, tests: Iterable[Planned]) -> None:
        """Take the tests that are to run."""
        for test in tests:
            self._records[test.case.id].planned = test
            self._ids[test.node_id] = test.case.id

    @property
    def planned(self) -> list[Planned]:
        """The tests that are to run, in their order."""
        records = (self._records[case_id] for case_id in dict.fromkeys(self._ids.values()))
        return [record.planned for record in records if record.planned is not None]

    @property
    def unreached(self) -> list[Planned]:
        """The tests that came neither to an outcome nor to their end, in their order."""
        records = ((test, self[test.case.id]) for test in self.planned)
        return [test for test, r in records if not r.has_ended and r.outcome is None]

    def report(self, outcome: Outcome) -> bool:
        """Take the outcome of a case, and return whether it is news.

        Of several attempts of its test, the last one counts.
        """
        record = self[outcome.case.id]
        if record.outcome == outcome:
            return False
        record.outcome = outcome
        self._reported[outcome.case.id] = None
        return True

    @property
    def outcomes(self) -> list[Outcome]:
        """The outcomes so far, one of each case, in the order in which the cases had one."""
        outcomes = (self._records[case_id].outcome for case_id in self._reported)
        return [outcome for outcome in outcomes if outcome is not None]

    @property
    def before(self) -> list[Outcome]:
        """The outcomes of the session that was interrupted."""
        return [r.before for r in self._records.values() if r.before is not None]

    @property
    def only_before(self) -> list[Outcome]:
        """Of those, the ones of cases that have no outcome in this session."""
        return [outcome for outcome in self.before if self[outcome.case.id].outcome is None]

    @property
    def left_out(self) -> Iterator[str]:
        """Why cases were left out at collection, once for each of them."""
        return (record.left_out for record in self._records.values() if record.left_out)

    def to_announce(self, tests: Sequence[Planned]) -> None:
        """Have the next report of an xdist worker say which tests are to run."""
        self._unannounced = tests

    def announce(self, report: pytest.TestReport) -> None:
        """Put what an xdist worker is to run onto its first report: only workers collect."""
        tests, self._unannounced = self._unannounced, ()
        if tests:
            setattr(report, PLANNED, [encode(test) for test in tests])

    def take_announced(self, report: pytest.TestReport) -> None:
        """Take what an xdist worker is to run off its report, where that says it."""
        self.plan(decode(Planned, values) for values in getattr(report, PLANNED, ()))


def planned_tests(items: Iterable[pytest.Item]) -> list[Planned]:
    """Return the perf tests among ``items``."""
    return [
        Planned(
            node_id=item.nodeid,
            location=item.location,
            case=selected.case,
            folder=str(item.path.parent),
        )
        for item in items
        if (selected := selected_of(item)) is not None
    ]


def keep_planned(tests: Sequence[Planned], folder: Path) -> None:
    """Write into the session's ``folder`` what is to run, before a worker's first report.

    All workers of pytest-xdist write the same.
    """
    path = folder / _PLANNED_FILE
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps([encode(test) for test in tests]), encoding="utf-8")
    temporary.replace(path)


def kept_planned(folder: Path) -> list[Planned]:
    """Return what the workers that share ``folder`` were to run; nothing where none has said."""
    path = folder / _PLANNED_FILE
    if not path.exists():
        return []
    return [decode(Planned, values) for values in json.loads(path.read_text(encoding="utf-8"))]
