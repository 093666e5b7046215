"""What a line says right beside the number that a group of a user's pattern found.

A letter that multiplies a number, an exponent, or the seconds of a clock are a part of it; its
unit, behind it or in the name before it, may be another one than the name of the group says. Then
the group has no number, and ``Contradictions`` says why.
"""

from __future__ import annotations

import re
from typing import Final

from pytest_dlperf.measure.logs.grouped_digits import is_of_group
from pytest_dlperf.measure.logs.registry import SAMPLES
from pytest_dlperf.measure.logs.speeds import (
    COUNTED,
    MILLISECOND,
    MULTIPLE_NAME,
    OTHER_TIMES,
    SECOND,
)

#: A multiple: ``12.3k tok/s``, ``1.05Mtok/s``; not the unit of ``12 GB``.
_MULTIPLE: Final = rb"[kKMGT](?:(?![A-Za-z])|(?=tok|img|im/|imag|samp|seq|iter|it/|step))"
#: What programs count, so that a name with it and a time is that of a rate.
_COUNTED: Final = (
    rb"(?:its?|iter|iters|iterations?|steps?|batch|batches|updates?|toks?|tokens?|words?|samples?"
    rb"|examples?|seqs?|sequences?|sentences?|images?|imgs?|instances?|items?|frames?)"
)
#: The same with a letter before it that multiplies it: ``Ktok/s``, ``B tokens``.
_MULTIPLIED: Final = rb"[kKMGBT] ?(?=tok|img|im/|imag|samp|seq|iter|it/|step|word|example|frame)"
_MULTIPLE_WORD: Final = rb"(?:thousand|million|billion|mln|bn)s?(?![A-Za-z])"
#: The rest of a number that a group found the begin of, by the group.
_REST_OF_ALL: Final = re.compile(
    rb" ?(?:" + _MULTIPLE + rb"|" + _MULTIPLIED + rb"|" + _MULTIPLE_WORD + rb")|[eE][+-]?\d"
)
_REST_OF_STEP: Final = re.compile(rb"\.?\d*" + _MULTIPLE + rb"|\.\d|[eE][+-]?\d")
_CLOCK_BEHIND: Final = re.compile(rb":\d")
_CLOCK_BEFORE: Final = re.compile(rb"\d:$")
#: Parts of a duration beside its seconds: ``1m 5s``, ``1 min 5 s``, ``2h``.
_MINUTES_BEFORE: Final = re.compile(rb"\d(?:[hmd]| ?(?:hrs?|hours?|mins?|minutes?|days?)),? ?$")
_MINUTES_BEHIND: Final = re.compile(rb"[hmd](?![A-Za-z0-9_])|[hm] ?\d")
#: Between a name and its number.
_EQUALS: Final = rb"['\"]?[ ]?[:=]? {0,8}['\"(\[]?$"
#: A name that multiplies the number behind it: ``tok/s (k): 123.4``.
_MULTIPLE_BEFORE: Final = re.compile(MULTIPLE_NAME.encode() + _EQUALS)
#: The same in its first letter or words: ``Ktok/s 12.3``, ``million tokens/s: 1.2``.
_MULTIPLE_IN_NAME: Final = re.compile(
    rb"(?<![A-Za-z])(?:" + _MULTIPLIED + rb"|" + _MULTIPLE_WORD + rb")"
)
#: Words before a name that say whose rate it is; a GPU's may be any.
_OF_PART: Final = (
    rb"(?i:(?:per[ -])?(?:local|worker|rank|node|host|machine|replica|device|shard)"
    rb"|per[ -][gnt]pu)"
)
_NAMES_PART: Final = re.compile(_OF_PART + rb"[ _]")
#: The words before a number, with what is in brackets behind them.
_NAME: Final = re.compile(
    rb"(?<![^\s,;|{(\['\"])"
    rb"(?P<name>(?:(?:[kKMGBT]|[a-z]{4,8}ions?|thousands?|"
    + _OF_PART
    + rb") )?[A-Za-z][\w/.()\[\]-]{0,40}"
    rb"(?: per [A-Za-z]{1,24}){0,3}(?: ?[\[{<(][^][{}<>()\d]{1,24}[\]}>)])?)(?P<equals>"
    + _EQUALS
    + rb")"
)
_NUMBER_BEFORE: Final = re.compile(rb"\d ?$")
#: Words behind a number that are the name of the next one.
_NEXT_NAME: Final = re.compile(
    rb" [A-Za-z][\w/]{0,32}(?:\([^()\d]{0,16}\))?['\"]?(?: ?[:=] {0,8}| {1,8})[+-]?\d"
)
#: Units of time, by the group that has them.
_UNITS: Final = {
    name: "|".join(sorted(words, key=len, reverse=True)).encode()
    for name, words in (
        ("seconds", SECOND), ("milliseconds", MILLISECOND), ("others", OTHER_TIMES),
    )
}  # fmt: skip
_UNIT_BEHIND: Final = {
    name: re.compile(rb" ?(?:" + unit + rb")(?![A-Za-z0-9_])") for name, unit in _UNITS.items()
}
#: In brackets or behind an underscore: ``time (ms): 12``, ``time_us=12``.
_UNIT_BEFORE: Final = {
    name: re.compile(rb"(?:[\[(]|_)(?:" + unit + rb")[\])]?" + _EQUALS)
    for name, unit in _UNITS.items()
}
_PER: Final = rb"(?:/|[ _]per[ _])"
_TIME: Final = b"|".join(_UNITS.values())
#: Per another time than a second.
_OTHER_TIME: Final = (
    _PER
    + rb"(?:"
    + b"|".join((_UNITS["milliseconds"], _UNITS["others"]))
    + rb"|days?|d|weeks?)(?![A-Za-z0-9])"
)
_PER_OTHER_TIME: Final = (
    re.compile(rb"(?: ?[A-Za-z]{1,24}){0,3}? ?" + _OTHER_TIME),
    re.compile(_COUNTED + _OTHER_TIME),
)
#: A time, alone or of something, behind a rate's number and in its name.
_IS_TIME: Final = (
    re.compile(
        rb" ?(?:" + _TIME + rb")(?:(?![A-Za-z0-9_/ ])| ?$| (?!per )|" + _PER + rb"[A-Za-z])"
    ),
    re.compile(
        rb"(?<![A-Za-z/])(?<!per[ _])(?:" + _TIME + rb")" + _PER + _COUNTED + rb"(?![a-z])"
    ),
)
#: A rate, behind the number of a time and in its name.
_A_RATE: Final = _COUNTED + _PER + rb"(?:" + _UNITS["seconds"] + rb")(?![A-Za-z0-9])"
_IS_RATE: Final = (re.compile(rb" ?[kKMG]?" + _A_RATE), re.compile(rb"(?<![A-Za-z])" + _A_RATE))
#: The time of something else than one iteration.
_OF_OTHER: Final = (
    rb"(?:"
    + _TIME
    + rb") ?(?:/|[ _]?per[ _]) ?(?:\d{2}|[2-9]|(?:toks?|tokens?|words?|samples?|examples?|seqs?"
    rb"|sequences?|sentences?|images?|imgs?|instances?|items?|frames?|epochs?|requests?)"
    rb"(?![A-Za-z]))"
)
_IS_OF_OTHER: Final = (
    re.compile(rb" ?" + _OF_OTHER),
    re.compile(rb"(?<![A-Za-z])" + _OF_OTHER),
)
_PARTS: Final = (
    rb"(?:[gntxh]pus?|devices?|chips?|cards?|accelerators?|ranks?|workers?|cores?|process(?:es)?"
    rb"|nodes?|hosts?|machines?|replicas?|shards?|local)(?![A-Za-z])"
)
_A_DEVICE: Final = _PER + _PARTS
#: Of a part of all devices: ``/gpu``, ``(local)``, ``on this GPU``.
_OF_DEVICE: Final = (
    re.compile(
        rb" ?[A-Za-z]{0,24}(?:"
        + _PER
        + rb"[A-Za-z]{1,24}){0,2}?(?:"
        + _A_DEVICE
        + rb"| ?[\[({](?:per[ -])?"
        + _PARTS
        + rb"[\])}]| (?:on|of|for|in|at) (?:(?:this|each|one|every|a|the) )"
        + _PARTS
        + rb")",
        re.IGNORECASE,
    ),
    re.compile(
        _A_DEVICE
        + rb"|(?<![A-Za-z])tgs(?![A-Za-z])|(?<![A-Za-z])"
        + _OF_PART
        + rb"[ _-](?!rank|step|iter|batch|id|world|size)"
        + rb"|(?<!all)[ _\[({-](?:per[ _-])?"
        + _PARTS
        + rb"[\])}]?$",
        re.IGNORECASE,
    ),
)
#: What a rate counts, behind its number and in its name.
_COUNTED_WORD: Final = (
    rb"(?P<counted>"
    + "|".join(sorted(COUNTED, key=len, reverse=True)).encode()
    + rb")(?:"
    + _PER
    + rb"[A-Za-z]{1,16})?"
    + _PER
    + rb"(?:"
    + _UNITS["seconds"]
    + rb")(?![A-Za-z0-9])"
)
_COUNTS: Final = (
    re.compile(rb" ?" + _COUNTED_WORD, re.I),
    re.compile(rb"(?<![A-Za-z])" + _COUNTED_WORD, re.I),
)
#: Short names of rates of tokens.
_COUNTS_TOKENS: Final = re.compile(rb"(?<![A-Za-z])(?:wps|tps|tgs)(?![A-Za-z])", re.I)
_MEANS: Final = rb"(?:(?i:avg|averaged?|mean|running|overall|cumulative))(?![a-z])"
#: Words of a name up to its number, with no other number between: ``avg rate=``, ``meanRate: ``.
_NAMES_MEAN: Final = re.compile(rb"(?:(?<![A-Za-z])|(?=[A-Z]))" + _MEANS + rb"[^\d,;|]{0,40}$")
_MEAN_BEHIND: Final = re.compile(rb" ?[A-Za-z/]{0,24} ?[(\[]" + _MEANS)
_IN_SECONDS: Final = {"seconds", "data", "elapsed"}
_LOOKS_BEFORE: Final = 40


class Contradictions:
    """Why groups of a pattern found no numbers in a log, and whose its rates are."""

    def __init__(self) -> None:
        #: The first reason, in words; empty where there is none.
        self.first = ""
        #: A rate that the lines say is of one device, in their words; empty where none is.
        self.of_device = ""
        #: The name of a speed says that it is a mean.
        self.names_mean = False

    def finds(self, match: re.Match[bytes], group: str, cause: str) -> bool:
        """Take in why a group has no number; return whether there is a reason."""
        if cause and not self.first:
            self.first = f"of {_shown(match, group)!r} {group} has no number: {cause}"
        return bool(cause)


def _shown(match: re.Match[bytes], group: str) -> str:
    """Return a group with the words beside it."""
    start, end = match.span(group)
    line = match.string
    before = line[max(0, start - 24) : start].rsplit(b"\t", 1)[-1]
    behind = line[end : end + 16].split(b"\t", 1)[0]
    return (before + line[start:end] + behind).decode(errors="replace").strip()


def _says(
    patterns: tuple[re.Pattern[bytes], re.Pattern[bytes]], behind: bytes, name: bytes
) -> bool:
    """Return whether the unit behind a number, or its name, says something."""
    return patterns[0].match(behind) is not None or patterns[1].search(name) is not None


def _beside(match: re.Match[bytes], group: str) -> tuple[bytes, bytes, bytes]:
    """Return what is before a group, its name, and the unit behind it."""
    line, (start, end) = match.string, match.span(group)
    begin = max(0, start - _LOOKS_BEFORE)
    before, behind = line[begin:start], line[end : end + _LOOKS_BEFORE]
    if _NEXT_NAME.match(behind):
        behind = b""
    named = _NAME.search(before)
    if named is None:
        return before, b"", behind
    # With nothing between but blanks it may be the unit of the number before it.
    is_unit = (
        not named["equals"].strip()
        and _NUMBER_BEFORE.search(before, 0, named.start()) is not None
        and _NAMES_PART.match(named["name"]) is None
    )
    if is_unit and not is_of_group(match, begin + len(before[: named.start()].rstrip()) - 1):
        return before, b"", behind
    return before, named["name"], behind


def words_of_device(match: re.Match[bytes]) -> str:
    """Return a rate with the words that say it is of one device; empty where none do."""
    text = match["rate"]
    if text is None or not text[-1:].isdigit():
        return ""
    _, name, behind = _beside(match, "rate")
    return _shown(match, "rate") if _says(_OF_DEVICE, behind, name) else ""


def names_mean(match: re.Match[bytes], group: str) -> bool:
    """Return whether the name of a speed says that it is a mean."""
    text = match[group]
    if text is None or not text[-1:].isdigit():
        return False
    before, _, behind = _beside(match, group)
    return bool(_NAMES_MEAN.search(before) or _MEAN_BEHIND.match(behind))


def counted_by(unit: str) -> str:
    """Return what a rate in a unit counts: tokens, iterations, or else samples of some kind."""
    return COUNTED.get(unit.lower(), SAMPLES)


def contradiction(match: re.Match[bytes], group: str, unit: str) -> str:
    """Return why what is right beside a group makes its number another one; empty: it does not.

    ``seconds`` with ``ms`` behind them, a rate with ``/min``, or one of tokens where the pattern's
    ``unit`` is samples, are no number of that group.
    """
    text = match[group]
    if text is None or group in {"epoch", "loss", "grad_norm"}:
        return ""
    if not text[-1:].isdigit():
        return ""
    line, end = match.string, match.end(group)
    if group == "step":
        is_cut = _REST_OF_STEP.match(line, end) is not None and not is_of_group(match, end + 1)
        return "it is a part of a number" if is_cut else ""
    before, name, behind = _beside(match, group)
    if _is_multiplied(line, end, before, name):
        return "a letter, a word or an exponent multiplies it, which the group has to read as well"
    if group == "rate":
        return _no_rate(behind, name, unit)
    if _is_of_clock(line, before, end):
        return "it is a part of a clock or a duration"
    if _says(_IS_RATE, behind, name):
        return "it is a rate, and no time"
    if _says(_IS_OF_OTHER, behind, name):
        return "it is the time of something else than one iteration"
    own = "seconds" if group in _IN_SECONDS else "milliseconds"
    is_other = any(
        _UNIT_BEHIND[unit].match(line, end) or _UNIT_BEFORE[unit].search(before)
        for unit in _UNITS
        if unit != own
    )
    return "its unit is another one than that of the group" if is_other else ""


def _no_rate(behind: bytes, name: bytes, unit: str) -> str:
    """Return why a number is not a rate in a unit; empty where it is."""
    if _says(_PER_OTHER_TIME, behind, name):
        return "it is per another time than a second"
    if _says(_IS_TIME, behind, name):
        return "it is a time, and no rate"
    counts = _COUNTS[0].match(behind) or _COUNTS[1].search(name)
    if counts is not None:
        counted = COUNTED[counts["counted"].decode().lower()]
    elif _COUNTS_TOKENS.search(name):
        counted = "tokens"
    else:
        return ""
    if counted == counted_by(unit):
        return ""
    return f"it counts {counted}, and the pattern {unit}; say what it counts (--unit={counted})"


def _is_multiplied(line: bytes, end: int, before: bytes, name: bytes) -> bool:
    return bool(
        _REST_OF_ALL.match(line, end)
        or _MULTIPLE_BEFORE.search(before)
        or _MULTIPLE_IN_NAME.search(name)
    )


def _is_of_clock(line: bytes, before: bytes, end: int) -> bool:
    return bool(
        _CLOCK_BEHIND.match(line, end)
        or _CLOCK_BEFORE.search(before)
        or _MINUTES_BEFORE.search(before)
        or _MINUTES_BEHIND.match(line, end)
    )
