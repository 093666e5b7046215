"""Annotations for GitHub Actions: workflow commands, one for each case that did not pass.

The escapes are those of GitHub's own toolkit: ``%``, CR and LF in a message, ``:`` and ``,`` as
well in a property (actions/toolkit, packages/core/src/command.ts).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.report.printable import one_line, printable
from pytest_dlperf.report.sort_order import Standing, standing, worst_first

#: GitHub shows no more of a type for one step.
_SHOWN: Final = 10
#: A message is a sentence, not a traceback; GitHub cuts one of 4 KiB.
_MESSAGE_BYTES: Final = 2000
_TYPES: Final = {Standing.FAILED: "error", Standing.APART: "warning"}


def commands(
    outcomes: Sequence[Outcome], place: Callable[[Outcome], tuple[str, int] | None]
) -> list[str]:
    """Return the commands, the worst case of each type first, at most ten of a type.

    ``place`` gives the file of a case, as the repository names it, and its line, from 1.
    """
    made = []
    for of, type_ in _TYPES.items():
        found = worst_first(outcome for outcome in outcomes if standing(outcome) is of)
        shown = found[:_SHOWN] if len(found) <= _SHOWN else found[: _SHOWN - 1]
        made += [_annotation(type_, outcome, place(outcome)) for outcome in shown]
        if more := len(found) - len(shown):
            message = f"and {more} more cases; the summary of this job has them all"
            made.append(_command(type_, {"title": "pytest-dlperf"}, message))
    return made


def _annotation(type_: str, outcome: Outcome, place: tuple[str, int] | None) -> str:
    judgement = outcome.judgement
    properties = {"title": f"{one_line(outcome.case.id)}: {judgement.verdict}"}
    if place is not None:
        properties = {"file": place[0], "line": str(place[1]), **properties}
    text = printable(judgement.reason).encode()
    message = text[:_MESSAGE_BYTES].decode(errors="ignore")
    if len(text) > _MESSAGE_BYTES:
        message += " ... (cut; the log has all of it)"
    return _command(type_, properties, message)


def _command(type_: str, properties: dict[str, str], message: str) -> str:
    told = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{type_} {told}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
