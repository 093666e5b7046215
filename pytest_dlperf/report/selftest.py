"""The result of a self-test: an answer for each case, and the exit code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.verdict import GOOD, Verdict
from pytest_dlperf.report import figures
from pytest_dlperf.report.printable import one_line

#: How often each question is asked, since a machine that people share disturbs single sessions.
TRIES: Final = 3


class Answer(Enum):
    """Whether the gate sees a slowdown of a case here."""

    SEES = "yes"
    #: Slower steps were certified as not slower.
    BLIND = "NO"
    #: What nobody had changed was called slower, in every try.
    FALSE_ALARM = "NO, it cries wolf"
    OPEN = "no answer"
    ERROR = "error"
    #: Nothing starts here, or nothing can be made slower.
    NOT_ASKED = "not asked"


@dataclass(frozen=True, kw_only=True, slots=True)
class Try:
    """What one session of the self-test found of a case, and the page to open."""

    outcome: Outcome
    page: Path

    @property
    def verdict(self) -> Verdict:
        """Its verdict."""
        return self.outcome.judgement.verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """One case: the tries of what was stored and of both questions, the last one last."""

    store: Sequence[Try]
    unchanged: Sequence[Try] = ()
    slower: Sequence[Try] = ()
    #: Whether what was stored is to be stored again.
    is_forgotten: bool = False

    @property
    def stored(self) -> Outcome:
        """What was stored, or why nothing was."""
        return self.store[-1].outcome

    @property
    def is_stored(self) -> bool:
        """Whether what is stored can be compared with: neither disturbed nor unsteady."""
        is_good = self.is_asked and self.store[-1].verdict in GOOD
        return is_good and not self.is_forgotten

    @property
    def is_asked(self) -> bool:
        """Whether there is something to judge against, and something to make slower."""
        return bool(self.stored.update) and not self.stored.case.command

    @property
    def cries_wolf(self) -> bool:
        """Whether every try of the unchanged case was called slower."""
        verdicts = {one.verdict for one in self.unchanged}
        return verdicts == {Verdict.REGRESSED} and len(self.unchanged) == TRIES

    @property
    def passed_unchanged(self) -> bool:
        """Whether a try of the unchanged case passed."""
        return any(one.verdict in GOOD for one in self.unchanged)

    @property
    def is_settled(self) -> bool:
        """Whether a try of the slower case was regressed, or certified."""
        return any(one.verdict in GOOD | {Verdict.REGRESSED} for one in self.slower)

    @property
    def answer(self) -> Answer:
        """What the tries say."""
        verdicts = {attempt.verdict for attempt in (*self.unchanged, *self.slower)}
        if Verdict.ERROR in verdicts or (not self.stored.update and not self._cannot_run):
            return Answer.ERROR
        if not self.is_asked:
            return Answer.NOT_ASKED
        if not self.is_stored:
            return Answer.OPEN
        if any(attempt.verdict in GOOD for attempt in self.slower):
            return Answer.BLIND
        if self.cries_wolf:
            return Answer.FALSE_ALARM
        return Answer.SEES if self.passed_unchanged and self.is_settled else Answer.OPEN

    @property
    def _cannot_run(self) -> bool:
        return self.stored.judgement.verdict is Verdict.NOT_RUN

    @property
    def open_verdicts(self) -> frozenset[Verdict]:
        """The verdicts that leave the case without an answer."""
        if self._cannot_run:
            return frozenset({Verdict.NOT_RUN})
        if self.answer is not Answer.OPEN:
            return frozenset()
        if not self.is_stored:
            return frozenset({self.store[-1].verdict})
        last = [] if self.passed_unchanged else [*self.unchanged[-1:]]
        last += [] if self.is_settled else [*self.slower[-1:]]
        return frozenset(one.verdict for one in last)


def exit_code(all_: Iterable[Asked], fail_on: Collection[Verdict]) -> int:
    """Return 0 if a case was answered with yes and none failed, else 1.

    What stayed open for noise fails only where its verdict is in ``fail_on``, as in any session.
    """
    answers = {asked.answer for asked in all_}
    if answers & {Answer.BLIND, Answer.FALSE_ALARM, Answer.ERROR}:
        return 1
    if any(asked.open_verdicts & set(fail_on) for asked in all_):
        return 1
    return 0 if Answer.SEES in answers else 1


def lines(all_: Sequence[Asked], share: float) -> list[str]:
    """Return the closing lines: for each case what was found, then how many there are of each.

    ``share`` is that by which steps were made longer.
    """
    of_cases: list[str] = []
    for asked in all_:
        of_cases += [f"{one_line(asked.stored.case.id)}: {asked.answer.value}"]
        of_cases += [f"  {line}" for line in _lines_of_case(asked, share)]
    counts = Counter(asked.answer for asked in all_)
    parts = [f"{counts[answer]} {answer.value}" for answer in Answer if counts[answer]]
    question = f"does the gate see steps that take {_percent(share)} longer"
    return [
        *of_cases,
        "",
        f"{question}, in {figures.counted(len(all_), 'case')}: {', '.join(parts)}",
    ]


def pages(all_: Iterable[Asked]) -> list[Path]:
    """Return the pages to open, each once: of each case that of its last session."""
    tries = [[*asked.store, *asked.unchanged, *asked.slower][-1:] for asked in all_]
    return list(dict.fromkeys(attempt.page for last in tries for attempt in last))


def _lines_of_case(asked: Asked, share: float) -> list[str]:
    if not asked.stored.update:
        return [_first_line(asked.stored)]
    sentences = _tried("stored", asked.store, asked.is_stored)
    sentences += _tried("unchanged", asked.unchanged, asked.passed_unchanged)
    sentences += _tried("slower", asked.slower, asked.is_settled)
    return [*sentences, _sentence(asked, share)]


def _stored(outcome: Outcome) -> str:
    """Return the level that is stored."""
    measurement = outcome.measurement
    assert measurement is not None, "it was stored"
    rate = f"{figures.rate(measurement.throughput)} {one_line(measurement.unit)}/s"
    return f"{rate}, {figures.counted(len(measurement.runs), 'run')}"


def _tried(what: str, tries: Sequence[Try], settled: bool) -> list[str]:
    """Return the verdict that counts, the last, with its sentence, and those before it."""
    if not tries:
        return []
    *before, last = tries
    number_of_try = f" at try {len(tries)} of {TRIES}" if before and settled else ""
    number_of_try = (
        f" in try {len(tries)} of {TRIES}, too" if before and not settled else number_of_try
    )
    verdict = f"{last.verdict}{number_of_try}: {_first_line(last.outcome)}"
    if what == "stored" and settled:
        verdict = f"{_stored(last.outcome)}{number_of_try}"
    lines = [f"{what}: {verdict}"]
    for number, attempt in enumerate(before, start=1):
        alarm = " (a FALSE ALARM)" if _is_false_alarm(what, attempt) else ""
        lines.append(
            f"  try {number} was {attempt.verdict}{alarm}: {_first_line(attempt.outcome)}"
        )
    return lines


def _is_false_alarm(what: str, attempt: Try) -> bool:
    return what == "unchanged" and attempt.verdict is Verdict.REGRESSED


def _sentence(asked: Asked, share: float) -> str:
    """Return the answer in one sentence, with what to do."""
    slower = f"steps that take {_percent(share)} longer"
    match asked.answer:
        case Answer.SEES:
            alarms = sum(_is_false_alarm("unchanged", attempt) for attempt in asked.unchanged)
            also = f"; {figures.counted(alarms, 'FALSE ALARM')} before that" if alarms else ""
            return f"the gate sees {slower} here{also}"
        case Answer.BLIND:
            tolerance = asked.slower[-1].outcome.judgement.throughput.tolerance
            within = "" if tolerance is None else f" within the tolerance of {_percent(tolerance)}"
            return (
                f"the gate does NOT see {slower} here: they were certified{within}; lower the "
                "tolerance (--dlperf-tolerance, or the case's own)"
            )
        case Answer.FALSE_ALARM:
            return (
                f"what nobody changed was regressed in all {TRIES} tries: the machine varies "
                "more between sessions than one session's runs show; store sessions of several "
                "days, or judge by pairs (--dlperf-against)"
            )
        case Answer.ERROR:
            return "it ended here, with the error"
        case Answer.NOT_ASKED:
            return (
                "it is a program of its own, whose steps cannot be made longer from here; make "
                "it slower yourself, and measure it against a stored baseline"
            )
        case Answer.OPEN:
            return _open(asked, share)


def _open(asked: Asked, share: float) -> str:
    last = asked.slower[-1] if asked.slower and not asked.is_settled else None
    sees = None if last is None else last.outcome.judgement.throughput.sees
    if last is not None and last.verdict is Verdict.INCONCLUSIVE and sees is not None:
        longer = _longer(sees)
        ask = "" if longer <= share else f", or ask for --dlperf-selftest={100 * longer:.0f}%"
        return (
            f"the gate does NOT see steps that take {_percent(share)} longer for certain; the "
            f"smallest slowdown that it can see here is {figures.percent(sees, sign=False)} "
            f"(steps that take {_percent(longer)} longer); give it more runs "
            f"(--dlperf-runs){ask}"
        )
    remedies = [_REMEDIES[verdict] for verdict in sorted(asked.open_verdicts)]
    return f"no answer: {remedies[0] if remedies else _NEVER_MEASURED}"


_NEVER_MEASURED: Final = "a session ended without a verdict on it; see its output above"
_REMEDIES: Final = {
    Verdict.INCOMPARABLE: "the machine was disturbed or changed; close what else runs, and try "
    "again",
    Verdict.UNSTEADY: "its runs differ too much; give a tolerance (--dlperf-tolerance), more runs "
    "(--dlperf-runs) or a quieter machine",
    Verdict.INCONCLUSIVE: "its runs differ too much; give more runs (--dlperf-runs), a larger "
    "tolerance (--dlperf-tolerance) or a quieter machine",
    Verdict.NO_BASELINE: "nothing was stored of it; see the output above",
    Verdict.NOT_RUN: "it did not start; see the output above",
    Verdict.REGRESSED: "the unchanged one was called slower; try again on a quieter machine, with "
    "more runs (--dlperf-runs)",
}


def _longer(slowdown: float) -> float:
    """Return by which share steps are longer where the rate is lower by ``slowdown``."""
    return slowdown / (1 - slowdown) if slowdown < 1 else float("inf")


def _percent(share: float) -> str:
    return f"{100 * share:.4g} %"


def _first_line(outcome: Outcome) -> str:
    """Return the first line of the sentence, less the remedy for what was slowed on purpose."""
    line = one_line(outcome.judgement.first_line)
    is_slowed = outcome.measurement is not None and outcome.measurement.inject > 0
    return line.partition("; find what changed")[0] if is_slowed else line
