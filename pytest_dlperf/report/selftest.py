"""The result of a self-test: an answer for each case, and the exit code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.verdict import GOOD, Verdict
from pytest_dlperf.report import figures
from pytest_dlperf.report.printable import one_line


class Step(Enum):
    """The sessions of a self-test in their order, with what each of them measures."""

    STORE = "stored"
    UNCHANGED = "unchanged"
    UNCHANGED_BY_PAIRS = "unchanged, by pairs"
    SLOWER = "slower"
    SLOWER_BY_PAIRS = "slower, by pairs"


class Answer(Enum):
    """Whether the gate sees a slowdown of a case here."""

    SEES = "yes"
    #: Slower steps were certified as not slower.
    BLIND = "NO"
    #: What nobody had changed was called slower.
    FALSE_ALARM = "NO, it cries wolf"
    OPEN = "no answer"
    ERROR = "error"
    #: Nothing starts here, or nothing can be made slower.
    NOT_ASKED = "not asked"


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionResult:
    """What one session of the self-test found of a case, and the page to open."""

    outcome: Outcome
    page: Path

    @property
    def verdict(self) -> Verdict:
        """Its verdict."""
        return self.outcome.judgement.verdict

    @property
    def is_by_pairs(self) -> bool:
        """Whether pairs were run: those of this session, or of its second stage."""
        second = self.outcome.confirmation
        return self.outcome.against is not None or (
            second is not None and second.pairs is not None
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """One case: what the sessions found so far. What stored sessions leave open, pairs decide."""

    results: Mapping[Step, SessionResult]
    #: Why pairs are not asked; empty if they are.
    no_pairs: str = ""

    @property
    def stored(self) -> Outcome:
        """What was stored, or why nothing was."""
        return self.results[Step.STORE].outcome

    @property
    def is_stored(self) -> bool:
        """Whether what is stored can be compared with: neither disturbed nor unsteady."""
        return self.is_asked and self.results[Step.STORE].verdict in GOOD

    @property
    def is_asked(self) -> bool:
        """Whether it was measured, and there is something to make slower."""
        return bool(self.stored.update) and not self.stored.case.command

    @property
    def unchanged(self) -> SessionResult | None:
        """What counts of the unchanged case: pairs, where there were any."""
        return self._counts(Step.UNCHANGED_BY_PAIRS, Step.UNCHANGED)

    @property
    def slower(self) -> SessionResult | None:
        """What counts of the case that was made slower: pairs, where there were any."""
        return self._counts(Step.SLOWER_BY_PAIRS, Step.SLOWER)

    def _counts(self, by_pairs: Step, by_stored: Step) -> SessionResult | None:
        return self.results.get(by_pairs) or self.results.get(by_stored)

    @property
    def has_error(self) -> bool:
        """Whether a session ended with an error of the case."""
        return any(result.verdict is Verdict.ERROR for result in self.results.values())

    @property
    def passed_unchanged(self) -> bool:
        """Whether the unchanged case passed."""
        return self.unchanged is not None and self.unchanged.verdict in GOOD

    @property
    def next_step(self) -> Step | None:
        """The session that the case needs next; None if it has its answer, or can have none."""
        if not self.is_asked or self.has_error:
            return None
        unchanged, slower = self.unchanged, self.slower
        if unchanged is None:
            return (
                Step.UNCHANGED
                if self.is_stored
                else self._unless_excluded(Step.UNCHANGED_BY_PAIRS)
            )
        if unchanged.verdict not in GOOD:
            return None if self._is_final(unchanged) else Step.UNCHANGED_BY_PAIRS
        if slower is None:
            # A stored session that left the unchanged case open says nothing of a slower one
            is_open = Step.UNCHANGED_BY_PAIRS in self.results
            return Step.SLOWER_BY_PAIRS if is_open else Step.SLOWER
        if slower.verdict in GOOD | {Verdict.REGRESSED} or self._is_final(slower):
            return None
        return Step.SLOWER_BY_PAIRS

    def _unless_excluded(self, step: Step) -> Step | None:
        return None if self.no_pairs else step

    def _is_final(self, result: SessionResult) -> bool:
        """Whether no pairs follow it: it is by pairs, or they are not asked."""
        return result.is_by_pairs or bool(self.no_pairs)

    @property
    def answer(self) -> Answer:
        """What the sessions say."""
        if self.has_error or (not self.stored.update and not self._cannot_run):
            return Answer.ERROR
        if not self.is_asked:
            return Answer.NOT_ASKED
        unchanged, slower = self.unchanged, self.slower
        if unchanged is not None and unchanged.verdict is Verdict.REGRESSED:
            return Answer.FALSE_ALARM if self._is_final(unchanged) else Answer.OPEN
        if slower is None:
            return Answer.OPEN
        if slower.verdict in GOOD:
            return Answer.BLIND
        return Answer.SEES if slower.verdict is Verdict.REGRESSED else Answer.OPEN

    @property
    def _cannot_run(self) -> bool:
        return self.stored.judgement.verdict is Verdict.NOT_RUN

    @property
    def left_open(self) -> SessionResult | None:
        """What leaves the case without an answer; None where a session has no verdict on it."""
        result = self.slower if self.passed_unchanged else self.unchanged
        if result is None and not self.is_stored and self.no_pairs:
            return self.results[Step.STORE]
        return result

    @property
    def open_verdict(self) -> Verdict | None:
        """The verdict that leaves the case without an answer; None if it has one."""
        if self._cannot_run:
            return Verdict.NOT_RUN
        if self.answer is not Answer.OPEN:
            return None
        return Verdict.NOT_RUN if self.left_open is None else self.left_open.verdict


def exit_code(all_: Iterable[Asked], fail_on: Collection[Verdict]) -> int:
    """Return 0 if a case was answered with yes and none failed, else 1.

    What stayed open for noise fails only where its verdict is in ``fail_on``, as in any session.
    """
    asked = list(all_)
    answers = {case.answer for case in asked}
    if answers & {Answer.BLIND, Answer.FALSE_ALARM, Answer.ERROR}:
        return 1
    if any(case.open_verdict in fail_on for case in asked):
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
    last = [[asked.results[step] for step in Step if step in asked.results][-1] for asked in all_]
    return list(dict.fromkeys(result.page for result in last))


def _lines_of_case(asked: Asked, share: float) -> list[str]:
    if not asked.stored.update:
        return [_first_line(asked.stored)]
    shown = [f"{s.value}: {_result(s, asked)}" for s in Step if s in asked.results]
    return [*shown, _sentence(asked, share)]


def _result(step: Step, asked: Asked) -> str:
    """Return what the session of ``step`` found: the level that it stored, or its verdict."""
    result = asked.results[step]
    measurement = result.outcome.measurement
    if step is Step.STORE and asked.is_stored:
        assert measurement is not None, "it was stored"
        rate = f"{figures.rate(measurement.throughput)} {one_line(measurement.unit)}/s"
        return f"{rate}, {figures.counted(len(measurement.runs), 'run')}"
    is_unchanged = step in {Step.UNCHANGED, Step.UNCHANGED_BY_PAIRS}
    alarm = is_unchanged and result.verdict is Verdict.REGRESSED
    return f"{result.verdict}{' (a FALSE ALARM)' * alarm}: {_first_line(result.outcome)}"


def _sentence(asked: Asked, share: float) -> str:
    """Return the answer in one sentence, with what to do."""
    slower = f"steps that take {_percent(share)} longer"
    counted = [result for result in (asked.unchanged, asked.slower) if result is not None]
    by_pairs = ", by pairs" if any(result.is_by_pairs for result in counted) else ""
    match asked.answer:
        case Answer.SEES:
            before = asked.results.get(Step.UNCHANGED)
            alarm = before is not None and before.verdict is Verdict.REGRESSED
            also = "; pairs did not confirm the FALSE ALARM of the stored session" * alarm
            return f"the gate sees {slower} here{by_pairs}{also}"
        case Answer.BLIND:
            assert asked.slower is not None, "it passed"
            tolerance = asked.slower.outcome.judgement.throughput.tolerance
            within = "" if tolerance is None else f" within the tolerance of {_percent(tolerance)}"
            return (
                f"the gate does NOT see {slower} here: they were certified{within}{by_pairs}; "
                "lower the tolerance (--dlperf-tolerance, or the case's own)"
            )
        case Answer.FALSE_ALARM:
            return f"what nobody changed was regressed{by_pairs}: {_cause_of_alarm(asked)}"
        case Answer.ERROR:
            return "it ended here, with the error"
        case Answer.NOT_ASKED:
            return (
                "it is a program of its own, whose steps cannot be made longer from here; make "
                "it slower yourself, and measure it against a stored baseline"
            )
        case Answer.OPEN:
            return _open(asked, share)


def _cause_of_alarm(asked: Asked) -> str:
    """Return what makes a gate call unchanged code slower, and what to do."""
    if asked.no_pairs:
        return (
            "the machine varies more between sessions than one session's runs show; "
            f"{asked.no_pairs}"
        )
    return (
        "--dlperf-alpha allows a false alarm in few suites; ask again, and where it stays allow "
        "more (--dlperf-tolerance), or give more runs (--dlperf-runs)"
    )


def _open(asked: Asked, share: float) -> str:
    result = asked.left_open
    if result is None:
        return "no answer: a session ended without a verdict on it; see its output above"
    sees = result.outcome.judgement.throughput.sees
    if result is asked.slower and result.verdict is Verdict.INCONCLUSIVE and sees is not None:
        longer = _longer(sees)
        ask = "" if longer <= share else f", or ask for --dlperf-selftest={100 * longer:.0f}%"
        return (
            f"the gate does NOT see steps that take {_percent(share)} longer for certain; the "
            f"smallest slowdown that it can see here is {figures.percent(sees, sign=False)} "
            f"(steps that take {_percent(longer)} longer); give it more runs "
            f"(--dlperf-runs){ask}"
        )
    instead = f"; {asked.no_pairs}" if asked.no_pairs else ""
    return f"no answer: {_REMEDIES[result.verdict]}{instead}"


_REMEDIES: Final = {
    Verdict.INCOMPARABLE: "its runs could not be compared, as the line above says",
    Verdict.UNSTEADY: "its runs differ too much; give a tolerance (--dlperf-tolerance), more runs "
    "(--dlperf-runs) or a quieter machine",
    Verdict.INCONCLUSIVE: "its runs differ too much; give more runs (--dlperf-runs), a larger "
    "tolerance (--dlperf-tolerance) or a quieter machine",
    Verdict.NO_BASELINE: "nothing was stored of it; see the output above",
    Verdict.NOT_RUN: "it did not start; see the output above",
    Verdict.REGRESSED: "the unchanged one was called slower, and the session of pairs has no "
    "verdict on it; see the output above",
}


def _longer(slowdown: float) -> float:
    """Return by which share steps are longer where the rate is lower by ``slowdown``."""
    return slowdown / (1 - slowdown) if slowdown < 1 else float("inf")


def _percent(share: float) -> str:
    return f"{100 * share:.4g} %"


def _first_line(outcome: Outcome) -> str:
    """Return the first line of the sentence, less a remedy for code: nobody changed that."""
    return one_line(outcome.judgement.first_line).partition("; find what changed")[0]
