"""Why a log of no known format is not read: what the file is, and the line most like a record."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, Literal

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.log_pattern import Averaging, LogPattern
from pytest_dlperf.core.run import Problem
from pytest_dlperf.measure.logs import (
    bar_states,
    shown_clock,
    shown_pattern,
    shown_table,
    speeds,
    unread_prints,
)
from pytest_dlperf.measure.logs.clean import untagged
from pytest_dlperf.measure.logs.clocks import Clock
from pytest_dlperf.measure.logs.declare import json_object
from pytest_dlperf.measure.logs.line_speeds import is_time, text_of
from pytest_dlperf.measure.logs.quantities import quantities
from pytest_dlperf.measure.logs.shown_pattern import Candidate, Doubt, evaluates
from pytest_dlperf.measure.logs.shown_table import Table

#: A file that is not a log at all.
NOT_A_LOG: Final = "unreadable-log"
#: So many bytes show what a file is.
HEAD_BYTES: Final = 1 << 16
#: So much of a log is looked at, and so many lines of one shape.
MOST_BLOCKS: Final = 4
_MOST_LINES: Final = 200
#: A shape that comes less often is no record.
_LEAST_LINES: Final = 3
#: So many patterns are tried on the log, at most.
_MOST_TRIALS: Final = 6
#: Of fewer lines no pattern can show that it gives a rate.
_ENOUGH_LINES: Final = 70
_SHOWN: Final = 160
#: Numbers with the blanks before them, and what is drawn of a bar.
_RUN: Final = re.compile(rb" *\d+(?:[.,]\d+)*|(?<=%)\|[^|\n]{0,400}\|")
_START: Final = "no line is a record of a known format"
_NEEDS: Final = " with --batch_size_per_device and --world_size"
_AVERAGINGS: Final = (
    "--averaging=running (a mean since the begin), window (since the last line) or iteration (of "
    "that one alone)"
)
#: A pattern that gives one of these reads the log as something else than it is.
_REFUSING: Final = frozenset({"several-runs", "clock-mismatch", "unknown-scale"})

#: A pattern's rate may be so many times the one that a clock of the log shows, or 1 / so many.
_APART: Final = 1.15
#: The same of a bar's own clock, by which its rates are made.
_BAR_APART: Final = 1.05
#: Iterations before these are no part of a rate.
SKIP: Final = 50


@dataclass(frozen=True, slots=True)
class Reading:
    """What a pattern makes of a log."""

    problems: Sequence[Problem]
    #: Work over time, and the median; empty where there is no number.
    rates: tuple[float, ...] = ()

    def has(self, code: str) -> bool:
        """Return whether one of the problems has a code."""
        return any(problem.code == code for problem in self.problems)


#: Reads the log by a pattern: its begin, or the whole of it.
Trial = Callable[[LogPattern, bool], Reading]
#: First bytes of files, what they are, and what makes a log of them.
_MAGIC: Final = (
    (b"\x1f\x8b", "gzip; decompress it (gzip -d)"),
    (b"PK\x03\x04", "a zip archive; unpack it"),
    (b"\xfd7zXZ\x00", "xz; decompress it (xz -d)"),
    (b"\x28\xb5\x2f\xfd", "zstd; decompress it (zstd -d)"),
    (b"BZh", "bzip2; decompress it (bzip2 -d)"),
)
_TEXT: Final = bytes({*range(32, 127), 9, 10, 13, 27, 0, *range(128, 256)})
#: More bytes than this share that no text has: the file is none.
_NO_TEXT: Final = 0.05


@dataclass(frozen=True, slots=True)
class _Tried:
    """What a reading of the log by a pattern shows."""

    #: Why it is not shown, in words; empty where it is.
    refusal: str = ""
    #: Which of two options goes with it, and nothing says which.
    choice: str = ""


def explain(head: bytes, blocks: Callable[[], Iterable[bytes]], trial: Trial) -> Problem:
    """Return why a log is not read; ``head`` are its first bytes, ``blocks`` its plain text."""
    if why := _why_no_text(head):
        return Problem(code=NOT_A_LOG, message=why)
    table = shown_table.table_in(b"".join(islice(blocks(), 1)))
    if table is not None:
        return Problem(code="unknown-format", message=_sentence_of_table(table, trial))
    shapes = _lines_by_shape(blocks())
    often = sorted(shapes, key=lambda lines: (evaluates(lines[-1]), -len(lines)))
    return Problem(code="unknown-format", message=_sentence(often, blocks, trial))


def _sentence_of_table(table: Table, trial: Trial) -> str:
    start = f"it is a table with the columns {_quoted(table.header)}"
    refusals = []
    for declared, name, doubt in shown_table.patterns_of(table):
        tried = _tried(declared, None, trial, len(table.rows))
        refusal = tried.refusal
        reading = shown_pattern.typed(declared) + ("" if declared.has_rate else _NEEDS)
        if not refusal and not doubt:
            return f"{start}, of which {name!r} is read by {reading}{tried.choice}"
        if not refusal and doubt == speeds.UNIT_UNSAID:
            doubt += f"; if it is in seconds, it is read by {reading}"
        refusals.append(f"; {name!r} is not read: {doubt or refusal}")
    if not refusals:
        refusals.append(
            ", and none is a step with a rate, the time of an iteration or a clock beside it"
        )
    return start + "".join(refusals)


def _lines_by_shape(blocks: Iterable[bytes]) -> list[list[str]]:
    """Return lines that are alike but for their numbers, in the order of the log."""
    shapes: defaultdict[bytes, list[str]] = defaultdict(list)
    for block in islice(blocks, MOST_BLOCKS):
        for text in block.split(b"\n"):
            line = untagged(text[:2000]).text
            lines = shapes[_RUN.sub(b"0", line)[:80]]
            if len(lines) < _MOST_LINES:
                lines.append(line.decode(errors="surrogateescape"))
    return [
        lines for shape, lines in shapes.items() if len(lines) >= _LEAST_LINES and shape.strip()
    ]


def _sentence(
    often: Sequence[Sequence[str]], blocks: Callable[[], Iterable[bytes]], trial: Trial
) -> str:
    doubts: list[tuple[str, str]] = []
    refused: set[LogPattern] = set()
    trials = most_refused = 0
    for candidate in shown_pattern.candidates(often):
        if isinstance(candidate, Doubt):
            doubts.append((candidate.line, candidate.sentence))
            continue
        # What most lines do not give, few lines of the same log do not give either
        if candidate.declared in refused or 2 * len(candidate.lines) < most_refused:
            continue
        if trials == _MOST_TRIALS:
            break
        trials += 1
        candidate, tried = _checked(candidate, blocks, trial)
        line = candidate.lines[-1]
        if not tried.refusal:
            needs = "" if candidate.declared.has_rate else _NEEDS
            return (
                f"{_START}; most like one is {_quoted(line)}, of which {candidate.reading} are "
                f"read by {candidate.typed}{needs}{tried.choice}"
            )
        refused.add(candidate.declared)
        most_refused = max(most_refused, len(candidate.lines))
        doubts.append((line, f"a pattern reads {candidate.reading}, but then {tried.refusal}"))
    return _without_speed(often, doubts, trial)


def _without_speed(
    often: Sequence[Sequence[str]], doubts: Sequence[tuple[str, str]], trial: Trial
) -> str:
    """Return what a log lacks, and whether its clock says how long iterations took."""
    if doubts:
        doubtful, why = doubts[0]
        start = f"{_START}; most like one is {_quoted(doubtful)}, where {why}"
    elif (line := _near_speed(often)) is not None:
        is_bar = "%|" in line or "it/s]" in line
        why = (
            "a progress bar that nothing shows to be training's"
            if is_bar
            else "which has a rate or a time, and no step is near it"
        )
        return f"{_START}; most like one is {_quoted(line)}, {why}"
    else:
        start = f"{_START}, and none has a rate or the time of an iteration that is known as one"
    by_stamps, stands = _time_stamps(often, trial)
    by_clock = by_stamps or _printed_clock(often, trial)
    if by_clock or doubts or stands:
        return start + (by_clock or stands)
    return f"{_START}{_without_clock(often)}"


def _printed_clock(often: Sequence[Sequence[str]], trial: Trial) -> str:
    """Return the pattern of a time since the begin; empty where there is none."""
    for lines in often:
        for declared in () if evaluates(lines[-1]) else shown_clock.elapsed_patterns(lines):
            if not _tried(declared, None, trial, len(lines)).refusal:
                return (
                    f". The time since the begin is in {_quoted(lines[-1])}: it says how long "
                    f"iterations took by {shown_pattern.typed(declared)}{_NEEDS}"
                )
    return ""


def _time_stamps(often: Sequence[Sequence[str]], trial: Trial) -> tuple[str, str]:
    """Return the pattern of a step by time stamps, or why stamps that are there give none."""
    clock = Clock()
    stands = ""
    for lines in often:
        stamps = [clock.read(line.encode(errors="surrogateescape")) for line in lines]
        if None in stamps or evaluates(lines[-1]):
            continue
        for declared in shown_pattern.clock_patterns(lines):
            tried = _tried(declared, None, trial, len(lines))
            if not tried.refusal:
                return (
                    f". Time stamps are in {_quoted(lines[-1])} "
                    f"({clock.style.name if clock.style else ''}): the clock says how long "
                    f"iterations took by {shown_pattern.typed(declared)}{_NEEDS}"
                ), ""
            stands = stands or f". By the time stamps of {_quoted(lines[-1])}: {tried.refusal}"
    return "", stands


def _without_clock(often: Sequence[Sequence[str]]) -> str:
    """Return what the line that is most like a record of training lacks."""
    for lines in often:
        if not evaluates(lines[-1]) and (grown := shown_clock.grown_time(lines)):
            return (
                f"; most like one is {_quoted(lines[-1])}, where {grown!r} grows as the time "
                "since the begin does, and nothing says its unit: in seconds a pattern reads it "
                "by (?P<elapsed>…)"
            )
    lacks = (
        ", and none has a rate or the time of an iteration that is known as one, or a time stamp "
        "that is known with a step"
    )
    trains = [lines for lines in often if not evaluates(lines[-1])]
    for lines in trains:
        if next(shown_pattern.steps_in(lines), None) is not None:
            line = lines[-1]
            time = next((number for number in quantities(line) if is_time(number.unit)), None)
            what = (
                "a step alone"
                if time is None
                else f"a step, and nothing says what {text_of(time)!r} is the time of"
            )
            return f"{lacks}: {_quoted(line)} has {what}"
    for word, what in ((_EPOCH, "an epoch alone"), (_LOSS, "no step and no time that is known")):
        line = next((lines[-1] for lines in trains if word.search(lines[-1])), "")
        if line:
            return f"{lacks}: {_quoted(line)} has {what}"
    return lacks


def _checked(
    candidate: Candidate, blocks: Callable[[], Iterable[bytes]], trial: Trial
) -> tuple[Candidate, _Tried]:
    """Return a candidate, and whether it may be shown: its number is compared with a clock's."""
    tried = _tried(candidate.declared, candidate, trial)
    states: list[bar_states.State] = []
    if candidate.counts_iterations:
        states = list(bar_states.states_like(candidate.lines[-1], blocks()))
    count = _count_read(candidate, states)
    turning = shown_pattern.with_both_units(candidate)
    if turning is not None and (tried.refusal or count < len(states)):
        tried_turning = _tried(turning.declared, turning, trial)
        if not tried_turning.refusal and _count_read(turning, states) >= count:
            candidate, tried = turning, tried_turning
            count = _count_read(turning, states)
    if count < shown_pattern.MOSTLY * len(states):
        return candidate, _Tried(
            refusal=f"it reads {count} of the {len(states)} states of the bar, which turns from "
            "one unit to another"
        )
    if tried.refusal or not candidate.counts_iterations:
        return candidate, tried
    if not states:
        refusal = _apart_from_stamps(candidate, trial)
        return candidate, _Tried(refusal=refusal) if refusal else tried
    by_clock = bar_states.rate_by_clock(states, SKIP)
    refusal = ""
    ways: tuple[Averaging | Literal[""], ...] = (candidate.declared.averaging, "running", "")
    # Where the prints leave it open, the bar's clock says what they are means over.
    for averaging in dict.fromkeys((*ways, "window")):
        declared = replace(candidate.declared, averaging=averaging)
        rates = trial(declared, True).rates[:1]
        if by_clock is None or (rates and not _are_apart(rates, by_clock, _BAR_APART)):
            agreeing = replace(candidate, declared=declared)
            return agreeing, _tried(declared, agreeing, trial) if averaging else tried
        refusal = refusal or (
            f"its rates come to {rates[0] if rates else 0:.4g} iterations/s, and by the bar's own "
            f"clock they are {by_clock:.4g}"
        )
    return candidate, _Tried(refusal=refusal)


def _count_read(candidate: Candidate, states: Sequence[bar_states.State]) -> int:
    search = re.compile(candidate.declared.regexes[-1]).search
    return sum(search(state.line) is not None for state in states)


def _apart_from_stamps(candidate: Candidate, trial: Trial) -> str:
    """Return in words how a candidate's rate is contradicted by the time stamps of its lines."""
    clock = Clock()
    if any(clock.read(line.encode(errors="surrogateescape")) is None for line in candidate.lines):
        return ""
    reading = trial(candidate.declared, True)
    rates = reading.rates
    for declared in shown_pattern.clock_patterns(candidate.lines):
        by_clock = trial(declared, True).rates
        if by_clock and reading.has("few-digits"):
            return (
                f"its {rates[0] if rates else 0:.4g} iterations/s have too few digits, and by the "
                f"time stamps of the same lines they are {by_clock[0]:.4g}"
            )
        if rates and by_clock and all(_are_apart(rates, rate, _APART) for rate in by_clock):
            return (
                f"its rates come to {rates[0]:.4g} iterations/s, and by the time stamps of the "
                f"same lines they are {by_clock[0]:.4g}"
            )
    return ""


def _are_apart(rates: Sequence[float], by_clock: float, factor: float) -> bool:
    return all(max(rate, by_clock) > factor * min(rate, by_clock) for rate in rates)


_EPOCH: Final = re.compile(r"\bepoch", re.IGNORECASE)
_LOSS: Final = re.compile(r"loss", re.IGNORECASE)


def _near_speed(often: Sequence[Sequence[str]]) -> str | None:
    """Return a line that has a speed without a step."""
    with_speed = [lines[-1] for lines in often if shown_pattern.has_speed(lines[-1])]
    return next(iter(sorted(with_speed, key=evaluates)), None)


def _tried(
    declared: LogPattern, candidate: Candidate | None, trial: Trial, count: int = 0
) -> _Tried:
    """Read the log by a pattern, and return whether it may be shown."""
    try:
        reading = trial(declared, False)
    except UsageError as error:
        return _Tried(refusal=str(error))
    problems = {problem.code: problem.message for problem in reading.problems}
    if not declared.scope and reading.has("unknown-scale"):
        of_all = _tried(replace(declared, scope="global"), candidate, trial, count)
        if not of_all.refusal:
            whose = (
                "--scope=device or process or node or global (the log says whose its rates are)"
            )
            return _Tried(choice=f" and {whose}{of_all.choice}")
    lines = count if candidate is None else len(candidate.lines)
    refusing = {*_REFUSING, *({"insufficient-data"} if lines >= _ENOUGH_LINES else set())}
    if not reading.rates:
        refusing.add(unread_prints.CODE)
    for code, message in problems.items():
        if code in refusing:
            return _Tried(refusal=f"{code}: {message}")
    if candidate is None:
        asks = "averages-differ" in problems and not declared.clock_suffices
        choices = [_AVERAGINGS] if asks else []
    else:
        choices = [*_choices(candidate, problems)]
    if not choices:
        return _Tried()
    # A comma would be copied with the option before it
    return _Tried(choice=f" and {' and '.join(choices)}: nothing in the log says which")


def _choices(candidate: Candidate, problems: Mapping[str, str]) -> Iterator[str]:
    """Yield the options that a reading with such problems leaves to the user, in words."""
    declared = candidate.declared
    if candidate.speed.part:
        yield f"--scope=device or process or node (whose rate it is of {candidate.speed.part!r})"
    is_rate = candidate.speed.group == "rate"
    many = "duplicate-ranks" in problems and "same numbers" not in problems["duplicate-ranks"]
    if many and is_rate and declared.scope in {"", "global"}:
        yield "--scope=device (of one rank) or --scope=global (of all ranks)"
    if not declared.averaging and (candidate.speed.is_mean or "averages-differ" in problems):
        yield _AVERAGINGS


def _quoted(line: str) -> str:
    text = line.encode(errors="surrogateescape").decode(errors="replace").strip()
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")


def _is_summary(head: bytes) -> bool:
    """Return whether a file is one JSON object with nothing behind it, as far as it is known."""
    return head.startswith(b"{") and len(head) < HEAD_BYTES and json_object(head) is not None


def _why_no_text(head: bytes) -> str:
    """Return what a file is by its first bytes, if it is not a text; empty for a text."""
    if not head:
        return "the file is empty"
    for magic, what in _MAGIC:
        if head.startswith(magic):
            return f"the file is {what}"
    if b"brain.Event:" in head[:64]:
        return (
            "the file has TensorBoard's events, and not the text of a log; export a scalar (CSV)"
        )
    if _is_summary(head):
        return (
            "the file is one JSON object, such as the summary of a run, and not the prints of a "
            "training: those of each step have what is needed"
        )
    if len(head.translate(None, _TEXT)) > _NO_TEXT * len(head):
        return "the file is binary, and not the text of a log"
    return ""
