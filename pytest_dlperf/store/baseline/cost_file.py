"""The stored cost of a case, ``cost/<suite>/<case id>.cost.json``, as a diff shows it best.

Each operator has a line, in an order that does not depend on the order of calls, and collectives
that layers repeat are there once; nothing in it depends on the machine or the time of the trace.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pytest_dlperf.core.codec import DecodeError
from pytest_dlperf.core.cost import COST_CLASS, public_version
from pytest_dlperf.core.cost_record import checked_cost
from pytest_dlperf.core.errors import BaselineError
from pytest_dlperf.core.wire_cost import CostRecord
from pytest_dlperf.store.baseline.folded import folded, unfolded
from pytest_dlperf.store.baseline.key import COST_END, Key
from pytest_dlperf.store.baseline.replace_file import locked, replace_file

#: What is of the trace, and not of the step.
_NOT_STORED: Final = frozenset({"elapsed_s", "trace_peak_bytes", "notes"})
#: Lists whose order says nothing; collectives are in the order in which they start.
_SORTED: Final = frozenset({"operators", "at_peak", "host_waits", "graph_breaks"})
#: What a line is of comes first, and orders the lines: what is counted moves none of them.
_FIRST: Final = ("path", "place", "phase", "name", "kind", "what", "shapes")
_REMEDY: Final = (
    "restore the file from version control, or remove it and store the cost again with "
    "--dlperf-cost --update-baselines"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredCost:
    """A stored cost, and what was stored with it."""

    record: CostRecord
    #: That of the case.
    case_version: int
    #: Why a higher cost was accepted; empty where it was not higher.
    reason: str = ""


def read(root: Path, suite: str, case_id: str) -> StoredCost | None:
    """Return the stored cost of a case; None if there is none.

    Raises ``BaselineError`` for a file that cannot be used.
    """
    path = path_of(root, suite, case_id)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BaselineError(f"cannot be read ({error.strerror})", subject=str(path)) from error
    try:
        return _from_bytes(content)
    except (DecodeError, ValueError, RecursionError) as error:
        raise BaselineError(f"not a cost ({error})", subject=str(path), remedy=_REMEDY) from error


def write(root: Path, suite: str, case_id: str, stored: StoredCost) -> str:
    """Store the cost of a case; return ``created``, ``replaced``, or empty where it is the same.

    Raises ``BaselineError`` if it cannot be written.
    """
    path, content = path_of(root, suite, case_id), to_bytes(stored)
    with locked(path):
        before = path.read_bytes() if path.exists() else None
        if before == content:
            return ""
        replace_file(path, content)
    return "created" if before is None else "replaced"


def path_of(root: Path, suite: str, case_id: str) -> Path:
    """Return the file of a case; raise ``BaselineError`` for names that can be no file's."""
    path = Key(machine_class=COST_CLASS, suite=suite, case_id=case_id).path(root)
    return path.with_name(f"{case_id}{COST_END}")


def to_bytes(stored: StoredCost) -> bytes:
    """Return the contents of the file."""
    values: dict[str, Any] = {
        name: value for name, value in stored.record.items() if name not in _NOT_STORED
    }
    values["stages"] = [
        {**stage, "collectives": folded(stage["collectives"])} for stage in stored.record["stages"]
    ]
    values["framework_version"] = public_version(stored.record["framework_version"])
    values["case_version"] = stored.case_version
    if stored.reason:
        values["reason"] = stored.reason
    return f"{_text(values)}\n".encode()


def _from_bytes(content: bytes) -> StoredCost:
    values: Any = json.loads(content)
    if isinstance(values, dict) and isinstance(values.get("stages"), list):
        for stage in values["stages"]:
            if isinstance(stage, dict) and "collectives" in stage:
                stage["collectives"] = unfolded(stage["collectives"])
    record = checked_cost(values)
    version, reason = values.get("case_version", 1), values.get("reason", "")
    if "problem" in record or type(version) is not int or type(reason) is not str:
        raise DecodeError("case_version must be a whole number, reason a text, problem absent")
    return StoredCost(record=record, case_version=version, reason=reason)


def _text(value: Any, name: str = "", indent: int = 0) -> str:
    """Return JSON in which what holds no other object is on one line."""
    inner, end = "\n" + " " * (indent + 1), "\n" + " " * indent
    if isinstance(value, Mapping):
        keys = [key for key in _FIRST if key in value]
        keys += sorted(key for key in value if key not in _FIRST)
        parts = [f"{json.dumps(key)}: {_text(value[key], key, indent + 1)}" for key in keys]
        if not any(isinstance(part, Mapping | list) for part in value.values()):
            return "{" + ", ".join(parts) + "}"
        return "{" + inner + f",{inner}".join(parts) + end + "}"
    if isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        rows = sorted(value, key=_order) if name in _SORTED else value
        parts = [_text(item, "", indent + 1) for item in rows]
        return "[" + inner + f",{inner}".join(parts) + end + "]"
    return json.dumps(value, allow_nan=False)


def _order(row: Mapping[str, Any]) -> list[str]:
    return [str(row.get(key, "")) for key in _FIRST]
