"""What a session prints at its end: the table, the sentences, and what was not judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest

from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.report import terminal
from pytest_dlperf.report.printable import shown
from pytest_dlperf.session.exits import write_line
from pytest_dlperf.session.settings import Settings
from pytest_dlperf.session.terminal import github_actions
from pytest_dlperf.session.terminal.test_report import CASE


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionEnd:
    """What a session came to, for its summary."""

    outcomes: Sequence[Outcome]
    #: Whether cases were to run, or logs to be judged, and nothing was measured.
    measured_nothing: bool
    exit_code: int
    #: Why it is not known what later sessions can detect; empty where it is.
    not_foreseen: str
    #: A line for each file and each place that has the outcomes, or why it has not.
    report_lines: Sequence[str]
    #: Why GitHub's summary of the step was not written; empty where it was.
    no_step_summary: str
    #: Of the tests in their files, from 1, by node id.
    line_numbers: Mapping[str, int]


def write_summary(
    reporter: pytest.TerminalReporter, config: pytest.Config, settings: Settings, end: SessionEnd
) -> None:
    """Print the summary; nothing for a session without a case."""
    if not end.outcomes and not end.measured_nothing:
        return
    verbosity = config.get_verbosity()
    if verbosity >= 0:
        reporter.write_sep("=", "dlperf")
    lines = terminal.render(
        end.outcomes,
        width=config.get_terminal_writer().fullwidth,
        verbosity=verbosity,
        printed=_cases_with_printed_sentence(reporter, config, end.outcomes),
    )
    begin = "" if verbosity >= 0 else "dlperf: "
    for line in lines:
        write_line(reporter, f"{begin}{line.text}", line.tail, line.colour)
        begin = ""
    for text in _remarks(settings, end, verbosity):
        write_line(reporter, text)
    if github_actions.is_on(config):
        for command in github_actions.commands(config, end.outcomes, end.line_numbers):
            reporter.write_line(command)


def _cases_with_printed_sentence(
    reporter: pytest.TerminalReporter, config: pytest.Config, outcomes: Sequence[Outcome]
) -> frozenset[str]:
    """Return the cases whose sentence pytest has printed, as that of a failed test."""
    if config.option.tbstyle in {"no", "line"}:
        return frozenset()
    printed = {
        getattr(report, CASE, ""): report.longreprtext
        for report in reporter.stats.get("failed", ())
    }
    return frozenset(
        outcome.case.id
        for outcome in outcomes
        if shown(outcome.judgement.reason) in printed.get(outcome.case.id, "")
    )


def _remarks(settings: Settings, end: SessionEnd, verbosity: int) -> list[str]:
    """Return the lines of the summary that are not about single outcomes."""
    remarks: list[str] = []
    outcomes = end.outcomes
    if end.measured_nothing:
        remarks.append(
            f"nothing was measured of {len(outcomes)} selected cases: exit code {end.exit_code}"
            if outcomes
            else f"no case has a log under {settings.from_logs}: exit code 1"
        )
    problems = {o.checkout_problem for o in outcomes if o.checkout_problem}
    for problem in sorted(problems) if verbosity >= 0 else ():
        words = "git does not say the commit of these cases, or whether files are modified"
        remarks.append(f"{words}, so that storing them needs --dlperf-reason: {problem}")
    if settings.resume is not None and verbosity >= 0:
        taken = sum(bool(outcome.taken_from) for outcome in outcomes)
        remarks.append(
            f"{taken} of {len(outcomes)} cases were taken from {settings.resume}, and "
            "not measured in this session"
        )
    if end.not_foreseen:
        remarks.append(f"{end.not_foreseen}: exit code 1")
    if verbosity >= 0:
        remarks += terminal.later_sessions(outcomes, verbosity=verbosity)
    if settings.observe and verbosity >= 0:
        remarks.append(_gate_words(settings, outcomes))
    remarks += [line for line in end.report_lines if verbosity >= 0 or " NOT " in line]
    return remarks + ([end.no_step_summary] if end.no_step_summary else [])


def _gate_words(settings: Settings, outcomes: Sequence[Outcome]) -> str:
    """Return what gate mode would have done."""
    fails = sum(settings.gate_fails(outcome.judgement) for outcome in outcomes)
    count = len(outcomes)
    return (
        "mode observe: only errors fail; gate mode would have failed "
        f"{fails} of {count} {'test' if count == 1 else 'tests'}"
    )
