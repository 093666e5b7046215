"""GitHub Actions: the job summary and the annotations of a session."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.place import IN_JOB
from pytest_dlperf.report import pull_request
from pytest_dlperf.report.printable import one_line, printable
from pytest_dlperf.report.sort_order import Standing, standing, worst_first

if TYPE_CHECKING:
    import pytest


#: GitHub drops the summary of a step that is larger.
_SUMMARY_BYTES: Final = 2**20
#: Too little to say anything in.
_LEAST_BYTES: Final = 4096


def is_on(config: pytest.Config) -> bool:
    """Whether this is a job of GitHub Actions, and the ini file allows a report to it."""
    is_job = os.environ.get("GITHUB_ACTIONS") == "true"
    # Cases run by a scheduler are reported by the submitting session
    reported_elsewhere = config.option.dlperf_scheduler == IN_JOB
    return is_job and not reported_elsewhere and bool(config.getini("dlperf_github"))


def commands(
    config: pytest.Config, outcomes: Sequence[Outcome], lines: Mapping[str, int]
) -> list[str]:
    """Return what to print: an annotation for each case that did not pass, the worst first.

    ``lines`` are those of the tests in their files, from 1, by node id.
    """
    root = Path(os.environ.get("GITHUB_WORKSPACE") or config.rootpath)

    def place(outcome: Outcome) -> tuple[str, int] | None:
        if outcome.node_id not in lines:
            return None
        path = config.rootpath / outcome.node_id.partition("::")[0]
        return os.path.relpath(path, root), lines[outcome.node_id]

    return annotations_of(outcomes, place)


def write_summary(outcomes: Sequence[Outcome]) -> str:
    """Add the outcomes to the summary of the step; return why they could not be, if so."""
    name = os.environ.get("GITHUB_STEP_SUMMARY")
    if not name:
        return ""
    path = Path(name)
    try:
        room = _SUMMARY_BYTES - (path.stat().st_size if path.exists() else 0)
        if room < _LEAST_BYTES:
            return f"summary of the step NOT written: {path} is full"
        with path.open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(pull_request.summary(outcomes, limit_bytes=room - 1) + "\n")
    except OSError as error:
        return f"summary of the step NOT written: {path}: {error.strerror}"
    return ""


#: GitHub shows no more of a type for one step.
_SHOWN: Final = 10
#: A message is a sentence, not a traceback; GitHub cuts one of 4 KiB.
_MESSAGE_BYTES: Final = 2000
_TYPES: Final = {Standing.FAILED: "error", Standing.APART: "warning"}


def annotations_of(
    outcomes: Sequence[Outcome], place: Callable[[Outcome], tuple[str, int] | None]
) -> list[str]:
    """Return the commands, the worst case of each type first, at most ten of a type.

    ``place`` gives the file of a case, as the repository names it, and its line, from 1.
    """
    made = []
    for kind, type_ in _TYPES.items():
        of_kind = worst_first(outcome for outcome in outcomes if standing(outcome) is kind)
        shown = of_kind[:_SHOWN] if len(of_kind) <= _SHOWN else of_kind[: _SHOWN - 1]
        made += [_annotation(type_, outcome, place(outcome)) for outcome in shown]
        if left := len(of_kind) - len(shown):
            message = f"and {left} more cases; the summary of this job has them all"
            made.append(_command(type_, {"title": "pytest-dlperf"}, message))
    return made


def _annotation(type_: str, outcome: Outcome, place: tuple[str, int] | None) -> str:
    judgement = outcome.judgement
    properties = {"title": f"{one_line(outcome.case.id)}: {one_line(judgement.title)}"}
    if place is not None:
        properties = {"file": place[0], "line": str(place[1]), **properties}
    text = printable(judgement.reason).encode()
    message = text[:_MESSAGE_BYTES].decode(errors="ignore")
    if len(text) > _MESSAGE_BYTES:
        message += " ... (cut; the log has all of it)"
    return _command(type_, properties, message)


def _command(type_: str, properties: dict[str, str], message: str) -> str:
    words = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{type_} {words}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
