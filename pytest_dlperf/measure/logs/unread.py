"""Why a log of no known format is not read: what the file is, and the line most like a record."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Final

from pytest_dlperf.core.log_pattern import LogPattern, pattern
from pytest_dlperf.core.run import Problem
from pytest_dlperf.measure.logs.clean import untagged
from pytest_dlperf.measure.logs.clocks import Clock
from pytest_dlperf.measure.logs.declare import NUMBER, WHOLE_NUMBER
from pytest_dlperf.measure.logs.user_pattern import format_of_pattern

#: A file that is not a log at all.
NOT_A_LOG: Final = "unreadable-log"
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
#: So much of a log is looked at, and so many lines of one shape.
_MOST_BLOCKS: Final = 4
_MOST_LINES: Final = 200
#: A shape that comes less often is no record.
_LEAST_LINES: Final = 3
#: So many of the lines of a shape must be read by a pattern that is shown.
_MOSTLY: Final = 0.8
_SHOWN: Final = 160
_NUM: Final = rb"\d[\d,]{0,20}(?:\.\d{1,20})?(?:[eE][+-]?\d{1,3})?" + WHOLE_NUMBER
_IS_NUMBER: Final = re.compile(NUMBER)
#: Numbers, and what is drawn of a bar.
_RUN: Final = re.compile(rb"\d+(?:[.,]\d+)*|(?<=%)\|[^|\n]{0,400}\|")
#: Before a number: it is not of one iteration.
_OF_ALL: Final = re.compile(rb"left|remain|eta|total|elapsed|until", re.IGNORECASE)
_OF_DEVICE: Final = re.compile(rb"device|gpu", re.IGNORECASE)
_EVALUATES: Final = re.compile(rb"\b(?:eval|valid|val\b|test|predict|load)", re.IGNORECASE)
#: The word before a bar says what it counts.
_BAR_WORD: Final = re.compile(rb"(?P<word>[A-Za-z_]{1,24}: {0,8})\d{1,3}%\|")


@dataclass(frozen=True, slots=True)
class _Speed:
    """How programs write a rate or a time."""

    group: str
    unit: str
    search: re.Pattern[bytes]


def _after(group: str, unit: str, words: bytes) -> _Speed:
    """Return a number with its unit after it."""
    text = rb"(?P<before>(?<![A-Za-z_/])[A-Za-z_/]{1,24}[ :=(\[,'\"]{1,4}|)(?P<number>" + _NUM
    search = re.compile(
        text + rb")(?P<after> ?(?:" + words + rb"))(?![A-Za-z/]|['\"]? ?[:=])", re.IGNORECASE
    )
    return _Speed(group, unit, search)


def _before(group: str, unit: str, words: bytes) -> _Speed:
    """Return a number with its name before it."""
    text = rb"(?P<before>(?<![A-Za-z0-9])(?:" + words + rb")['\"]?[ ]{0,3}[:= ][ ]{0,3}['\"]?)"
    text += rb"(?P<number>" + _NUM
    return _Speed(group, unit, re.compile(text + rb")(?P<after>)", re.IGNORECASE))


#: A rate is of one device.
_EACH: Final = rb"(?:(?:_per_|/)(?:gpu|npu|device|chip))?"
#: Looked for in this order.
_SPEEDS: Final = (
    _after("rate", "tokens", rb"tok(?:en)?s?/s(?:ec|econd)?"),
    _after("rate", "samples", rb"(?:samples|examples|sequences|images|imgs?)/s(?:ec|econd)?"),
    _before("rate", "tokens", rb"tok(?:en)?s?(?:/|_per_)s(?:ec|econd)?" + _EACH),
    _before(
        "rate",
        "samples",
        rb"(?:samples|examples|sequences|images)(?:/|[_ ]per[_ ])s(?:ec|econd)?" + _EACH,
    ),
    _after("seconds", "", rb"s(?:ecs?|econds?)?/(?:it(?:er(?:ation)?)?|step|batch|update)"),
    _after("rate", "iterations", rb"(?:it(?:er(?:ation)?)?s?|steps?|batch(?:es)?)/s(?:ec)?"),
    _before("rate", "iterations", rb"(?:it|iter|steps?)(?:/|_per_)s(?:ec|econd)?"),
    _after("milliseconds", "", rb"ms(?:/(?:it|iter|step))?"),
    _before(
        "seconds",
        "",
        rb"(?:train_)?(?:step|iter(?:ation)?|batch)[_ ]?(?:time|timing)(?: in s)?"
        rb"|(?:time|sec(?:onds)?)[_ ]per[_ ](?:step|iter(?:ation)?)",
    ),
    _before("rate", "samples", rb"throughput"),
    _before("rate", "tokens", rb"wps|tps|tgs(?: \(tokens/gpu/second\))?"),
    _before("seconds", "", rb"time|dt|took|cost|duration"),
)
_STEPS: Final = re.compile(
    rb"(?P<before>(?:(?:global|train)[_ ]?)?"
    rb"\b(?:steps?|iters?|iteration|batch|update|it|num_updates)"
    rb"['\"]?[ ]{0,3}[\[:=#, ]{0,8}['\"]?)(?P<number>\d{1,12})(?![\d.%])"
    rb"|(?P<bar>[|\[] {0,8})(?P<drawn>\d{1,12})(?=/ {0,8}\d|\])",
    re.IGNORECASE,
)
_EPOCHS: Final = re.compile(rb"\bepochs?[ ]?[:=\[ ]{0,3}(?P<number>\d{1,6})", re.IGNORECASE)


def explain(head: bytes, blocks: Iterable[bytes]) -> Problem:
    """Return why a log is not read; ``head`` are its first bytes, ``blocks`` its plain text."""
    if not head:
        return Problem(code=NOT_A_LOG, message="the file is empty")
    for magic, what in _MAGIC:
        if head.startswith(magic):
            return Problem(code=NOT_A_LOG, message=f"the file is {what}")
    if len(head.translate(None, _TEXT)) > _NO_TEXT * len(head):
        return Problem(code=NOT_A_LOG, message="the file is binary, and not the text of a log")
    return Problem(code="unknown-format", message=_sentence_on_text(_lines_by_shape(blocks)))


def _lines_by_shape(blocks: Iterable[bytes]) -> dict[bytes, list[bytes]]:
    """Return lines, with numbers made alike as their shape, in the order of the log."""
    shapes: defaultdict[bytes, list[bytes]] = defaultdict(list)
    for block in islice(blocks, _MOST_BLOCKS):
        for text in block.split(b"\n"):
            line = untagged(text[:2000]).text
            lines = shapes[_RUN.sub(b"0", line)[:80]]
            if len(lines) < _MOST_LINES:
                lines.append(line)
    return {
        shape: lines
        for shape, lines in shapes.items()
        if len(lines) >= _LEAST_LINES and shape.strip()
    }


def _sentence_on_text(shapes: dict[bytes, list[bytes]]) -> str:
    start = "no line is a record of a known format"
    often = sorted(shapes.values(), key=lambda lines: (_evaluates(lines[-1]), -len(lines)))
    fast = [
        (lines, speed, match)
        for lines in often
        for speed in _SPEEDS
        for match in speed.search.finditer(lines[-1])
        if _IS_NUMBER.fullmatch(match["number"].rstrip(b",")) and not _is_of_all(lines, match)
    ]
    for lines, speed, match in fast:
        for regexes in _patterns(lines, speed, match, often):
            declared = pattern(*regexes)
            needs = "" if speed.group == "rate" else _NEEDS
            unit = "" if speed.unit in {"", "samples"} else f" --unit={speed.unit}"
            if speed.group == "rate" and _OF_DEVICE.search(match.string[: match.end()]):
                unit += " --scope=device"
            return (
                f"{start}; most like one is {_quoted(lines[-1])}, read by "
                f"{_typed(declared)}{unit}{needs}"
            )
    if fast:
        line = fast[0][0][-1]
        why = (
            "a progress bar that nothing shows to be training's"
            if b"%|" in line or b"it/s]" in line
            else "which has a rate or a time, and no step is near it"
        )
        return f"{start}; most like one is {_quoted(line)}, {why}"
    clock = Clock()
    for lines in often:
        stamps = [clock.read(line) for line in lines]
        for before in _steps_in(lines) if None not in stamps else ():
            declared = pattern(before)
            return (
                f"{start}, and none has a rate or the time of an iteration. Time stamps alone are "
                f"in {_quoted(lines[-1])} ({clock.style.name if clock.style else ''}): the clock "
                f"says how long iterations took by {_typed(declared)}{_NEEDS}"
            )
    bare = next((lines[-1] for lines in often if next(_steps_in(lines), None)), None)
    return (
        f"{start}, and none has a rate, the time of an iteration, or a time stamp with a step"
        + ("" if bare is None else f": {_quoted(bare)} has a step alone")
    )


_NEEDS: Final = " with --batch_size_per_device and --world_size"


def _patterns(
    lines: Sequence[bytes],
    speed: _Speed,
    match: re.Match[bytes],
    often: Sequence[Sequence[bytes]],
) -> Iterator[tuple[str, ...]]:
    """Yield patterns that read most of the lines, and were tried on them."""
    rate = f"{_literal(match['before'])}(?P<{speed.group}>{_NUMBER}){_literal(match['after'])}"
    bar = _BAR_WORD.search(lines[-1])
    for step, place in _steps_with_place(lines):
        parts = [(place, step), (match.start(), rate), *_epoch(lines[-1])]
        if bar is not None and bar.start() < min(place, match.start()):
            parts.append((bar.start(), rf"{_literal(bar['word'])}\d+%\|"))
        # A name that is part of another one has its place
        regex = ".*?".join(text for _, text in sorted(parts))
        if _reads(lines, (regex,)) and not _reads_evaluation(often, regex):
            yield (regex,)
    for further_lines in often:
        if further_lines is not lines and 2 * len(further_lines) >= len(lines):
            for step, place in _steps_with_place(further_lines):
                parts = [(place, step), *_epoch(further_lines[-1])]
                yield (".*?".join(text for _, text in sorted(parts)), rate)


def _epoch(line: bytes) -> Iterator[tuple[int, str]]:
    match = _EPOCHS.search(line)
    if match is not None:
        name = match[0][: match.start("number") - match.start()]
        yield match.start(), rf"{_literal(name)}(?P<epoch>\d+)"


def _is_of_all(lines: Sequence[bytes], match: re.Match[bytes]) -> bool:
    """Return whether a number grows with each line, as the time since the begin does."""
    line = match.string
    if _OF_ALL.search(line[max(0, match.start() - _NEAR) : match.start("number")]):
        return True
    search = re.compile(
        (_literal(match["before"]) + f"({_NUMBER})" + _literal(match["after"])).encode()
    ).search
    texts = [hit[1] for line in lines if (hit := search(line)) is not None]
    values = [
        float(text.replace(b",", b"").rstrip(b".") or 0) for text in texts if text.count(b".") < 2
    ]
    rises = sum(value > former for former, value in pairwise(values))
    return (
        len(values) > 2
        and rises >= _MOSTLY * (len(values) - 1)
        and values[-1] > _GROWS * values[0]
    )


#: Words so near to a number are about it.
_NEAR: Final = 8
_GROWS: Final = 1.5


def _reads_evaluation(often: Sequence[Sequence[bytes]], regex: str) -> bool:
    """Return whether a pattern reads lines of evaluation as well."""
    return any(_evaluates(others[-1]) and _reads(others, (regex,)) for others in often)


def _evaluates(line: bytes) -> bool:
    """Return whether a line begins with a word of evaluation, or has it before a bar."""
    head, percent, _ = line.partition(b"%|")
    return _EVALUATES.search(head if percent else line[:_HEAD]) is not None


#: What a line is of is in so many bytes of its begin.
_HEAD: Final = 30


#: What a pattern that is shown reads as a number.
_NUMBER: Final = r"[\d.,]+"


def _reads(lines: Sequence[bytes], regexes: tuple[str, ...]) -> bool:
    parse = format_of_pattern(pattern(*regexes)).parse
    records = [parse(line) for line in lines]
    read = [
        record
        for record in records
        if record is not None and (record.rate is not None or record.seconds is not None)
    ]
    return len(read) >= _MOSTLY * len(lines)


def _steps_in(lines: Sequence[bytes]) -> Iterator[str]:
    return (step for step, _ in _steps_with_place(lines))


def _steps_with_place(lines: Sequence[bytes]) -> Iterator[tuple[str, int]]:
    """Yield what comes before a number that mostly rises from line to line, and where it is."""
    for match in _STEPS.finditer(lines[-1]):
        before = match["before"] if match["bar"] is None else match["bar"]
        literal = _literal(before)
        if match["bar"] is None:
            literal = ("" if match.start() == 0 else r"\b") + literal
        search = re.compile(literal.encode() + rb"(\d+)").search
        values = [int(step[1]) for line in lines if (step := search(line)) is not None]
        moves = [value - former for former, value in pairwise(values) if value != former]
        rises = sum(move > 0 for move in moves)
        if len(values) >= _MOSTLY * len(lines) and moves and rises >= _MOSTLY * len(moves):
            yield rf"{literal}(?P<step>\d+)", match.start()


def _literal(text: bytes) -> str:
    """Return a pattern of a text, in which runs of blanks may have any length."""
    words = re.split(r" +", text.decode("latin-1"))
    return " *".join(re.sub(r"([^\w/%=:,;'\"<>@#!&-])", r"\\\1", word) for word in words)


def _typed(declared: LogPattern) -> str:
    return " ".join(f"--pattern={shlex.quote(regex)}" for regex in declared.regexes)


def _quoted(line: bytes) -> str:
    text = line.decode(errors="replace").strip()
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")
