"""Whether both sides did the same work under the same conditions."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_dlperf.core.finding import Finding, Weight
from pytest_dlperf.judge.evidence import Evidence, Kind
from pytest_dlperf.judge.problem_codes import DOUBTFUL, UNCHECKED


def check(evidence: Evidence) -> Iterator[Finding]:
    """Yield what was not checked of the declared work, and which conditions differ.

    Of logs first what differs: that is certain, and what their problems leave open is a doubt.
    """
    is_log = evidence.kind is Kind.LOGS
    checks = (_differences, _unchecked) if is_log else (_unchecked, _differences)
    for part in checks:
        yield from part(evidence)


def _unchecked(evidence: Evidence) -> Iterator[Finding]:
    is_log = evidence.kind is Kind.LOGS
    codes = DOUBTFUL if is_log else UNCHECKED
    message = evidence.problem_text(codes, by="; " if is_log else ", and ")
    if message:
        figures = {"kind": evidence.kind.value, "text": message}
        yield Finding(code="work-unchecked", weight=Weight.DIFFERENT, figures=figures)


def _differences(evidence: Evidence) -> Iterator[Finding]:
    if evidence.differences:
        yield Finding(
            code="conditions-differ",
            weight=Weight.DIFFERENT,
            figures={
                "kind": evidence.kind.value,
                "first": evidence.differences[0].partition(":")[0],
                "count": len(evidence.differences),
                "fields": ", ".join(evidence.differences),
            },
        )
