"""The first line of two stages: what stored sessions saw, and what pairs say of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pytest_dlperf.core.finding import Finding
from pytest_dlperf.judge.words.first_line import WORDS, accept_it, remedy_of, with_remedy
from pytest_dlperf.judge.words.options import Options, either

#: The stages, the one that says most first.
ORDER: Final = ("packages", "pairs", "stored")
#: What to do where pairs are unsteady.
_MEASURE_AGAIN: Final = "look at the records of its pairs, and measure again"


def _pairs_decided(finding: Finding, options: Options) -> str:
    line = (
        f"{finding.text('seen')}; side by side with {finding.text('against')} "
        f"{finding.text('beside')}: {finding.text('verdict')}"
    )
    if finding.figures.get("machine_did_the_rest"):
        line += "; the machine did the rest"
    if finding.text("verdict") == "regressed":
        return with_remedy(line, either("find what changed", accept_it(options)))
    if finding.text("verdict") == "inconclusive":
        return with_remedy(line, remedy_of(finding, options))
    if finding.text("verdict") == "unsteady":
        return with_remedy(line, _MEASURE_AGAIN)
    return line


def _environment_changed(finding: Finding, options: Options) -> str:
    line = f"{finding.text('seen')}; {finding.text('environment')}"
    if packages := finding.text("packages"):
        seen = f"{finding.text('seen')}; {packages}: {finding.text('beside')}"
        return f"{seen}\n{finding.text('environment')}; {accept_it(options)}"
    measured_by = finding.text("measured_by")
    return with_remedy(line, f"{measured_by} measures that" if measured_by else accept_it(options))


def _packages_unknown(finding: Finding, options: Options) -> str:
    line = f"{finding.text('seen')}; {finding.text('unknown')}"
    return with_remedy(line, accept_it(options))


def _packages_decided(finding: Finding, options: Options) -> str:
    by_packages = (
        f"{finding.text('packages')}: {finding.text('beside')}: {finding.text('verdict')}"
    )
    line = f"{finding.text('seen')}; {by_packages}"
    if len(line.split()) > WORDS:
        line = f"{finding.text('seen_by_stored')}; {by_packages}"
    if finding.text("verdict") == "regressed":
        return with_remedy(line, either(finding.text("undo"), accept_it(options)))
    if finding.text("verdict") == "unsteady":
        return with_remedy(line, _MEASURE_AGAIN)
    return line


def _same_code(finding: Finding, options: Options) -> str:
    line = f"{finding.text('seen')} with the code and packages of {finding.text('against')}"
    if finding.figures.get("machine_did_it"):
        return with_remedy(f"{line}: the machine or its settings did it", accept_it(options))
    return line


FIRST_LINES: Final[Mapping[str, Callable[[Finding, Options], str]]] = {
    "pairs-decided": _pairs_decided,
    "environment-changed": _environment_changed,
    "packages-unknown": _packages_unknown,
    "packages-decided": _packages_decided,
    "same-code": _same_code,
}


def first_line(finding: Finding, options: Options) -> str:
    """Return the first line of a verdict of two stages."""
    return FIRST_LINES[finding.code](finding, options)
