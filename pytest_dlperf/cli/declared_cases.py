"""Cases that the tests declare, as pytest collects them, and baselines without one."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.metric import Gate
from pytest_dlperf.core.metrics import gates_of
from pytest_dlperf.store.baseline.store import StoredBaseline


@dataclass(frozen=True, slots=True)
class Declared:
    """What the marker of a case says about its verdict."""

    #: None where it gives none.
    tolerance: float | None = None
    gates: tuple[Gate, ...] = ()


def declared_cases(paths: Sequence[str]) -> dict[str, Declared]:
    """Return all cases that the tests in ``paths`` declare, by their ids.

    Raises ``UsageError`` with pytest's own words where they cannot be collected.
    """
    with tempfile.TemporaryDirectory() as folder:
        listing = Path(folder) / "cases.json"
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "--dlperf-list",
                f"--dlperf-json={listing}",
                *paths,
            ],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode != 0 or not listing.exists():
            raise UsageError(
                f"pytest --dlperf-list {' '.join(paths)} failed, so it is not known which cases "
                f"there are.\n{done.stdout}{done.stderr}"
            )
        cases = json.loads(listing.read_text(encoding="utf-8"))["cases"]
    return {
        case["id"]: Declared(case["tolerance"], gates_of(case["metrics"]))
        for case in cases
        if case["declared"]
    }


def marker_of(case_id: str, declared: Mapping[str, Declared]) -> Declared:
    """Return what the marker of a case says.

    ``--gpus`` replaces layouts, so a layout that no marker names has the marker of the others.
    Raises ``LookupError`` where no test declares the case in any layout, or those that do differ.
    """
    if case_id in declared:
        return declared[case_id]
    name = _without_layout(case_id)
    markers = {
        marker for other_id, marker in declared.items() if _without_layout(other_id) == name
    }
    if len(markers) != 1:
        raise LookupError(case_id)
    return markers.pop()


def without_case(
    entries: Iterable[StoredBaseline], declared: Collection[str]
) -> list[StoredBaseline]:
    """Return the measured baselines whose case is not ``declared`` in any layout.

    ``--gpus`` replaces layouts: a case is known by its id without the layout.
    """
    names = {_without_layout(case_id) for case_id in declared}
    return [
        entry
        for entry in entries
        if entry.baseline.source.kind == "measured"
        and _without_layout(entry.baseline.case_id) not in names
    ]


def _without_layout(case_id: str) -> str:
    return case_id.rpartition("-")[0]
