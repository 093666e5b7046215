"""The patterns that may read a log of no known format, and what speaks against each.

A pattern is made of one line of a shape, and must read of each line the number that the line
means: the one with the same name and unit. Where a line does not say what its number means, no
pattern is made of it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, Literal

from pytest_dlperf.core.log_pattern import Averaging, LogPattern, pattern
from pytest_dlperf.measure.logs.line_speeds import speeds_of, text_of
from pytest_dlperf.measure.logs.quantities import Quantity, quantities
from pytest_dlperf.measure.logs.registry import ITERATIONS, SAMPLES
from pytest_dlperf.measure.logs.speeds import Speed
from pytest_dlperf.measure.logs.user_pattern import format_of_pattern

#: So many of the lines of a shape must be read by a pattern that is shown.
MOSTLY: Final = 0.8
#: What a pattern that is shown reads as a number.
_NUMBER: Final = r"[\d.,]+"
#: A unit or a number ends: ``images/s`` is no part of ``images/s/gpu``.
_ENDS: Final = r"(?![\w/])"
#: What of a line says that it is of an evaluation is in so many bytes of its begin.
_HEAD: Final = 30
#: A time since the begin is so many times the first one at the end.
GROWS: Final = 1.5
_EVALUATES: Final = re.compile(r"\b(?:eval|valid|val\b|test|predict|load)", re.IGNORECASE)
#: A bar whose end nobody knows: ``905718 examples [00:02, 302738.60 examples/s]``.
_OPEN_BAR: Final = re.compile(r"\[(?:\d+:)?\d\d:\d\d[,<]")
#: Words of a bar that prepares data or files; elsewhere they may be a training's.
_PREPARES: Final = re.compile(
    r"\b(?:fetch|download|upload|extract|map\b|filter|tokeniz|prepar|preprocess|process|pack|cache|caching"
    r"|index|convert|save|saving|writ|read|generate|generating|shard|copy|merg|quantiz|captur|warm)",
    re.IGNORECASE,
)
#: The word before a bar says what it counts.
_BAR_WORD: Final = re.compile(r"(?P<word>[A-Za-z_]{1,24}: {0,8})\d{1,3}%\|")
_STEPS: Final = re.compile(
    # What may be in front of the word: other words make it a constant, or another loop's step
    r"(?P<before>(?<!\w)(?:(?:global|train|trainer|training|cur|current|num|n|opt|optim"
    r"|optimizer|update|gradient|completed)[_/ ]){0,2}_?"
    r"(?:steps?|iters?|iterations?|batch|update|it|num_updates)"
    r"['\"]?[ ]{0,3}[\[:=#, ]{0,8}['\"]?)(?P<number>\d{1,12})"
    r"(?![\d.%]|,\d|[kKMG](?![A-Za-z])| ?(?:m?s|secs?|seconds?)\b)"
    r"|(?P<bar>[|\[] {0,8})(?P<drawn>\d{1,12})(?=/ {0,8}\d|\])",
    re.IGNORECASE,
)
#: What is behind the step of a bar, where other brackets are before it.
_BEHIND_DRAWN: Final = (
    (re.compile(r"\]"), r"(?=\])"),
    (re.compile(r"/ {0,8}\d{1,12} {0,8}\]"), r"(?=/ *\d+ *\])"),
    (re.compile(r"/ {0,8}\d"), r"(?=/ *\d)"),
)
_EPOCHS: Final = re.compile(
    r"\bepochs?[ ]?[:=\[ ]{0,3}(?P<number>\d{1,6})(?!\d|\.\d)", re.IGNORECASE
)
#: The state of a progress bar: step, and the time since it began. That of a notebook has blanks:
#: https://github.com/huggingface/transformers/blob/main/src/transformers/utils/notebook.py
_BAR: Final = re.compile(r"(\d+)/\d+ \[?(?:(\d+):)?(\d+):(\d+) ?<")
#: A rate of ``steps``, and a step that is called otherwise.
_COUNTS_STEPS: Final = re.compile(r"(?<![A-Za-z])steps?(?:/| per |_per_)", re.IGNORECASE)
_IS_NO_STEP: Final = re.compile(r"iter|update|epoch", re.IGNORECASE)
_OTHER_STEPS: Final = (
    "it counts steps, where the lines count iterations or updates: they may be an environment's"
)
_ONE_COMMA: Final = re.compile(r"[+-]?\d{1,3},\d{3}")
_ONE_POINT: Final = re.compile(r"[+-]?[1-9]\d{0,2}\.\d{3}")
_PLAIN: Final = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][+-]?\d+)?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """A number that mostly rises from line to line."""

    regex: str
    #: Where it is in the last line: its name, and its number.
    place: int
    number: tuple[int, int]
    #: How far it mostly moves between two lines.
    stride: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A pattern that reads a speed."""

    lines: Sequence[str]
    speed: Speed
    declared: LogPattern
    #: The step of the last line, where it is on the same one.
    step: int | None = None

    @property
    def counts_iterations(self) -> bool:
        """Whether it says how long an iteration takes, as a clock does."""
        return self.speed.group != "rate" or self.speed.unit == ITERATIONS

    @property
    def typed(self) -> str:
        """Its pattern as it is typed, but for a scope that the line leaves open."""
        is_open = bool(self.speed.part)
        return typed(replace(self.declared, scope="global") if is_open else self.declared)

    @property
    def reading(self) -> str:
        """What it reads of the last line, in words."""
        value = f"{_value(self.speed.number):.6g}"
        group, unit = self.speed.group, self.speed.unit
        what = f"{unit}/s" if group == "rate" else group
        mean = " (a mean since the bar began)" if self.declared.averaging else ""
        return f"{'' if self.step is None else f'step {self.step} and '}{value} {what}{mean}"


@dataclass(frozen=True, slots=True)
class Doubt:
    """A number that may be the speed, and why no pattern is made of it."""

    line: str
    number: Quantity
    #: In words.
    why: str

    @property
    def sentence(self) -> str:
        """Why the number is not read."""
        return f"{self.text!r} is not read: {self.why}"

    @property
    def text(self) -> str:
        """The number with its name and its unit."""
        return text_of(self.number)


def with_both_units(candidate: Candidate) -> Candidate | None:
    """Return the pattern that reads iterations a second, and seconds of one where it has those.

    None for a speed in any other unit.
    """
    unit = candidate.speed.number.unit
    counted, _, per = unit.strip().partition("/")
    if {counted, per} & {"s"} and candidate.speed.group in {"rate", "seconds"}:
        word = per if counted == "s" else counted
    else:
        return None
    if candidate.speed.group == "rate" and candidate.speed.unit != ITERATIONS:
        return None
    own_speed = rf"(?P<{candidate.speed.group}>{_NUMBER}){literal_pattern(unit)}"
    blank = " *" if unit.startswith(" ") else ""
    word = literal_pattern(word)
    either_speed = rf"(?:(?P<rate>{_NUMBER}){blank}{word}/s|(?P<seconds>{_NUMBER}){blank}s/{word})"
    *first, last = candidate.declared.regexes
    if own_speed not in last:
        return None
    declared = pattern(
        *first,
        last.replace(own_speed, either_speed),
        averaging=candidate.declared.averaging,
        unit=ITERATIONS,
    )
    return replace(candidate, declared=declared)


def evaluates(line: str) -> bool:
    """Return whether a line begins with a word of evaluation, or has it before a bar."""
    head, percent, _ = line.partition("%|")
    if (percent or _OPEN_BAR.search(line)) and _PREPARES.search(head):
        return True
    return _EVALUATES.search(head if percent else line[:_HEAD]) is not None


def candidates(often: Sequence[Sequence[str]]) -> Iterator[Candidate | Doubt]:
    """Yield the patterns that read lines, the best first of each shape of lines."""
    speeds: list[tuple[Sequence[str], Speed]] = []
    for lines in often:
        if not evaluates(lines[-1]):
            frequent = [shape[-1] for shape in often if 2 * len(shape) >= len(lines)]
            own = sorted(speeds_of(lines[-1], frequent), key=_preference)
            speeds += [(lines, speed) for speed in own]
    most = max((len(lines) for lines, _ in speeds), default=0)
    # A rate of work goes before one of iterations, also on another line.
    for lines, speed in sorted(
        speeds,
        key=lambda pair: pair[1].unit in {"", ITERATIONS} or 2 * len(pair[0]) < most,
    ):
        yield from _candidates_of(lines, speed, often)


def has_speed(line: str) -> bool:
    """Return whether a number of a line is a rate or a time of training."""
    return bool(speeds_of(line, ()))


def clock_patterns(lines: Sequence[str]) -> Iterator[LogPattern]:
    """Yield patterns of a step, and of the epoch where lines have one."""
    for _, declared in _step_patterns(lines):
        yield declared


def _step_patterns(lines: Sequence[str]) -> Iterator[tuple[Step, LogPattern]]:
    for step in steps_in(lines):
        yield step, pattern(in_order(lines[-1], [(step.place, step.regex)]))


def typed(declared: LogPattern) -> str:
    """Return a pattern as it is typed, with the options that go with it."""
    words = [f"--pattern={shlex.quote(regex)}" for regex in declared.regexes]
    if declared.unit not in {"", SAMPLES}:
        words.append(f"--unit={declared.unit}")
    if declared.scope not in {"", "global"}:
        words.append(f"--scope={declared.scope}")
    if declared.averaging:
        words.append(f"--averaging={declared.averaging}")
    return " ".join(words)


def _preference(speed: Speed) -> tuple[bool, bool, bool, int]:
    """Return by what numbers of a line are ordered: one that is surely meant goes first."""
    if speed.group == "rate":
        kind = 2 if speed.unit == ITERATIONS else 0
    else:
        kind = 1 if speed.is_of_iteration else 3
    return bool(speed.doubt), speed.is_mean, speed.scope != "global", kind


def _candidates_of(
    lines: Sequence[str], speed: Speed, often: Sequence[Sequence[str]]
) -> Iterator[Candidate | Doubt]:
    steps = list(steps_in(lines))
    numbers = [number for line in lines if (number := _same(line, speed)) is not None]
    if why := speed.doubt or _doubt_of(lines, numbers, speed, steps):
        yield Doubt(lines[-1], speed.number, why)
        return
    if steps and all(_is_otherwise_counted(speed, step) for step in steps):
        yield Doubt(lines[-1], speed.number, _OTHER_STEPS)
        return
    number = speed.number
    unit = literal_pattern(number.unit)
    value = f"{literal_pattern(number.before)}(?P<{speed.group}>{_NUMBER}){unit}"
    averaging: Averaging | Literal[""] = "running" if _is_since_begin(lines, speed) else ""
    place = number.start - len(number.before)
    for step in steps:
        if _is_otherwise_counted(speed, step):
            continue
        for regex in (
            regex
            for ended in (value, value + _ENDS, rf"\b{value}")
            for regex in _with_step(lines[-1], step, place, ended)
        ):
            if _reads(lines, regex, speed) and not _reads_evaluation(often, regex):
                yield Candidate(
                    lines=lines,
                    speed=speed,
                    declared=_declared((regex,), speed, averaging),
                    step=int(lines[-1][slice(*step.number)]),
                )
                break
    if _reads(lines, value, speed):
        for step, declared in _further(lines, often):
            if _is_otherwise_counted(speed, step):
                yield Doubt(lines[-1], speed.number, _OTHER_STEPS)
                return
            regexes = (*declared.regexes, value)
            yield Candidate(
                lines=lines, speed=speed, declared=_declared(regexes, speed, averaging)
            )


def _with_step(line: str, step: Step, place: int, value: str) -> Iterator[str]:
    """Yield a pattern of step and speed, and the same with all that the line begins with."""
    parts = [(step.place, step.regex), (place, value), *_epoch(line)]
    bar = _BAR_WORD.search(line)
    if bar is not None and bar.start() < min(step.place, place):
        parts.append((bar.start(), rf"{literal_pattern(bar['word'])}\d+%\|"))
    regex = _joined(parts)
    yield regex
    yield _from_begin(line, min(at for at, _ in parts)) + regex


def _is_otherwise_counted(speed: Speed, step: Step) -> bool:
    """Return whether a rate of ``steps`` goes with another word: an environment has steps, too."""
    return (
        speed.unit == ITERATIONS
        and speed.group == "rate"
        and _COUNTS_STEPS.search(f"{speed.number.name} {speed.number.unit}") is not None
        and _IS_NO_STEP.search(step.regex) is not None
    )


def _further(
    lines: Sequence[str], often: Sequence[Sequence[str]]
) -> Iterator[tuple[Step, LogPattern]]:
    """Yield patterns of the step on other lines than that of the speed."""
    for others in often:
        if others is not lines and 2 * len(others) >= len(lines) and not evaluates(others[-1]):
            yield from _step_patterns(others)


def _declared(
    regexes: tuple[str, ...], speed: Speed, averaging: Averaging | Literal[""]
) -> LogPattern:
    declared = pattern(*regexes, averaging=averaging or "", unit=speed.unit)
    # Not said: sentences of the log may be of a part of the devices.
    return declared if speed.scope == "global" else replace(declared, scope=speed.scope)


def _same(line: str, speed: Speed) -> Quantity | None:
    """Return the number of a line that has the name and the unit of a speed."""
    wanted = speed.number
    same = (
        number
        for number in quantities(line)
        if (number.name, number.unit) == (wanted.name, wanted.unit) and number.is_whole
    )
    return next(same, None)


def _value(number: Quantity) -> float:
    return float(number.text.replace(",", ""))


def _doubt_of(
    lines: Sequence[str], numbers: Sequence[Quantity], speed: Speed, steps: Sequence[Step]
) -> str:
    """Return why a number may mean something else, in words; empty if it is known."""
    if why := _doubt_of_digits(lines, numbers, speed, steps):
        return why
    if speed.group != "rate" and not speed.is_mean and _grows(numbers):
        reads = "; a pattern reads that by (?P<elapsed>…)" if speed.group == "seconds" else ""
        return f"it grows from line to line, as the time since the begin does{reads}"
    stride = max((step.stride for step in steps), default=1)
    if speed.group != "rate" and not speed.is_of_iteration and stride > 1:
        return time_of_several(stride)
    return ""


def time_of_several(stride: int) -> str:
    """Return in words what is not known of a time that is printed once in so many iterations."""
    return f"it may be the time of one iteration, or of the {stride} between two lines"


def _doubt_of_digits(
    lines: Sequence[str], numbers: Sequence[Quantity], speed: Speed, steps: Sequence[Step]
) -> str:
    """Return why digits may mean another number than a pattern reads, in words."""
    texts = [number.text for number in numbers]
    odd = next((text for text in texts if not _PLAIN.fullmatch(text)), None)
    if any(number.is_multiplied for number in numbers):
        return "a letter multiplies it, which a pattern does not"
    if odd is not None:
        return f"{odd!r} has a mark between its digits, which the group of a pattern has to take"
    one_comma = [_ONE_COMMA.fullmatch(text) is not None for text in texts]
    if any(one_comma) and speed.unit != "tokens" and not _has_thousands(texts):
        return "its comma may be a mark of thousands or a decimal one"
    if any(_ONE_POINT.fullmatch(text) for text in texts) and not _has_decimal_points(lines):
        return "its point may be one of thousands or a decimal one"
    if _may_go_on(lines, speed, steps) or _goes_on(lines, speed):
        return "the digits beside it may be a part of it, with a blank as a mark of thousands"
    return ""


def _has_thousands(texts: Sequence[str]) -> bool:
    return any(text.count(",") > 1 or ("," in text and "." in text) for text in texts)


def _has_decimal_points(lines: Sequence[str]) -> bool:
    """Return whether a number of the lines has a point that is not before three digits."""
    return any(
        re.fullmatch(r"[+-]?\d+\.\d+", number.text) and not _ONE_POINT.fullmatch(number.text)
        for line in lines
        for number in quantities(line)
    )


def _may_go_on(lines: Sequence[str], speed: Speed, steps: Sequence[Step]) -> bool:
    """Return whether a number without a name may begin with the digits before it."""
    step_ends = {step.number[1] for step in steps}
    before = re.search(r"(?<![\d.,])\d{1,3} $", lines[-1][: speed.number.start])
    if before is None or speed.number.start - 1 in step_ends:
        return False
    return all(
        re.match(r"\d{3}(?!\d)", number.text) is not None
        for line in lines
        if (number := _same(line, speed)) is not None
    )


def _goes_on(lines: Sequence[str], speed: Speed) -> bool:
    """Return whether a number is followed by digits that may be a part of it."""
    return all(
        re.fullmatch(r"[1-9]\d{0,2}", number.text) is not None
        and re.match(r" \d{3}(?!\d)", line[number.end :]) is not None
        for line in lines
        if (number := _same(line, speed)) is not None
    )


def _grows(numbers: Sequence[Quantity]) -> bool:
    """Return whether a number grows with each line, as the time since the begin does."""
    values = [_value(number) for number in numbers if _PLAIN.fullmatch(number.text)]
    return (
        len(values) > 2 and mostly_rises(values, strictly=True) and values[-1] > GROWS * values[0]
    )


def mostly_rises(values: Sequence[float], *, strictly: bool) -> bool:
    """Return whether most numbers are above the one before, or unless ``strictly`` as high."""
    moves = [later - former for former, later in pairwise(values)]
    rises = sum(move > 0 if strictly else move >= 0 for move in moves)
    return rises >= MOSTLY * (len(values) - 1)


def _is_since_begin(lines: Sequence[str], speed: Speed) -> bool:
    """Return whether the speed of a bar is the mean since it began, by the time that it shows.

    A bar of tqdm forgets the first steps, unless its ``smoothing`` is 0.
    """
    states: list[tuple[int, float, float]] = []
    for line in lines:
        bar, number = _BAR.search(line), _same(line, speed)
        if bar is not None and number is not None and (value := _value(number)) > 0:
            each_s = 1 / value if speed.group == "rate" else value
            hours, minutes, seconds = (int(part or 0) for part in bar.groups()[1:])
            states.append((int(bar[1]), 3600.0 * hours + 60 * minutes + seconds, each_s))
    fits = sum(abs(each * step - end) <= 1 + 0.01 * end for step, end, each in states)
    misfits = sum(
        abs(each * (step - former) - (end - begin)) > 1 + 0.2 * (end - begin)
        for (former, begin, _), (step, end, each) in pairwise(states)
    )
    return len(states) > 2 and fits >= 0.95 * len(states) and misfits > 2


def _reads(lines: Sequence[str], regex: str, speed: Speed) -> bool:
    """Return whether a pattern reads of most lines the number that they mean."""
    search = re.compile(regex).search
    parse = None
    if "(?P<step>" in regex:
        parse = format_of_pattern(pattern(regex, unit=speed.unit)).parse
    right = 0
    for line in lines:
        number, match = _same(line, speed), search(line)
        if number is None or match is None:
            continue
        is_same = match[speed.group].rstrip(",;") == number.text
        if match.start(speed.group) != number.start or not is_same:
            return False
        record = None if parse is None else parse(line.encode(errors="surrogateescape"))
        value = None if record is None else (record.rate or record.seconds)
        factor = 1000.0 if speed.group == "milliseconds" else 1.0
        right += parse is None or (
            value is not None and abs(value * factor - _value(number)) <= 1e-9 * _value(number)
        )
    return right >= MOSTLY * len(lines)


def _reads_evaluation(often: Sequence[Sequence[str]], regex: str) -> bool:
    """Return whether a pattern finds something in lines of evaluation as well."""
    search = re.compile(regex).search
    return any(search(line) is not None for lines in often for line in lines if evaluates(line))


def steps_in(lines: Sequence[str]) -> Iterator[Step]:
    """Yield the numbers of the last line that mostly rise from line to line."""
    for match in _STEPS.finditer(lines[-1]):
        is_drawn = match["bar"] is not None
        # A bar fills its steps up with blanks.
        literal = (
            literal_pattern(match["bar"].rstrip(" ")) + " *"
            if is_drawn
            else literal_pattern(match["before"])
        )
        if not is_drawn and match.start() > 0:
            literal = r"\b" + literal
        behind = [""]
        if is_drawn:
            rest = lines[-1][match.end("drawn") :]
            behind += [regex for shape, regex in _BEHIND_DRAWN if shape.match(rest)][:1]
        for ending in behind:
            stride = _stride(lines, rf"{literal}(\d+){ending}")
            if stride is not None:
                yield Step(
                    regex=rf"{literal}(?P<step>\d+){ending}",
                    place=match.start(),
                    number=match.span("drawn" if is_drawn else "number"),
                    stride=stride,
                )
                break


def _stride(lines: Sequence[str], regex: str) -> int | None:
    """Return how far a number moves from line to line; None unless it mostly rises."""
    search = re.compile(regex).search
    values = [int(step[1]) for line in lines if (step := search(line)) is not None]
    return stride_of(values) if len(values) >= MOSTLY * len(lines) else None


def stride_of(values: Sequence[int]) -> int | None:
    """Return how far a step moves from print to print; None unless it mostly rises."""
    moves = sorted(value - former for former, value in pairwise(values) if value != former)
    rises = sum(move > 0 for move in moves)
    return moves[len(moves) // 2] if moves and rises >= MOSTLY * len(moves) else None


def _epoch(line: str) -> Iterator[tuple[int, str]]:
    match = _EPOCHS.search(line)
    if match is not None:
        name = match[0][: match.start("number") - match.start()]
        yield match.start(), rf"{literal_pattern(name)}(?P<epoch>\d+)"


def _from_begin(line: str, place: int) -> str:
    """Return a pattern of what a line begins with, before a place."""
    return "^" + re.sub(r"\d+(?:[.,:]\d+)*", lambda _: r"[\d.,:]+", literal_pattern(line[:place]))


def in_order(line: str, parts: Sequence[tuple[int, str]]) -> str:
    """Return a pattern of parts at their places of a line, and of the epoch where it has one."""
    return _joined([*parts, *_epoch(line)])


def _joined(parts: list[tuple[int, str]]) -> str:
    # A name that is part of another one has its place
    return ".*?".join(text for _, text in sorted(parts))


def literal_pattern(text: str) -> str:
    """Return a pattern of a text, in which runs of blanks may have any length."""
    words = re.split(r" +", text)
    return " *".join(re.sub(r"([^\w/%=:,;'\"<>@#!&-])", r"\\\1", word) for word in words)
