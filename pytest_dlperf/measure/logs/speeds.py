"""Which number of a line is a rate or the time of an iteration, by its name and its unit.

A name or a unit that is not wholly known makes none: ``data_time`` is no time of an iteration.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from pytest_dlperf.measure.logs.quantities import MULTIPLIES, Quantity
from pytest_dlperf.measure.logs.registry import ITERATIONS, SAMPLES

#: What a pattern calls the number; empty where no pattern reads its unit.
Group = Literal["rate", "seconds", "milliseconds", ""]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ITERATION: Final = _words(
    "it its iter iters iteration iterations step steps batch batches update updates"
)
#: In the name of a time: it is of more iterations than one.
_SEVERAL: Final = _words("its iters iterations steps batches updates")
_TOKENS: Final = _words("tok toks token tokens word words element elements")
_SAMPLES: Final = _words(
    "sample samples example examples sequence sequences seq seqs sentence sentences image images "
    "img imgs instance instances item items"
)
_DEVICE: Final = _words("gpu gpus npu device devices chip chips")
SECOND: Final = _words("s sec secs second seconds")
MILLISECOND: Final = _words("ms msec msecs millisecond milliseconds")
#: Units of time that no pattern reads.
OTHER_TIMES: Final = _words(
    "us \u00b5s \u03bcs usec usecs microsecond microseconds ns nanosecond nanoseconds min mins "
    "minute minutes h hr hrs hour hours"
)
_TIMES: Final = _words("time timing dt took cost duration latency elapsed")
_RATES: Final = _words("throughput speed rate")
#: Short names of rates, and what they count.
_SHORT: Final = {"wps": "tokens", "tps": "tokens", "tgs": "tokens", "ips": SAMPLES}
#: Tokens per GPU and second, in InternEvo and XTuner.
_OF_DEVICE: Final = _words("tgs")
#: At the end of a name that multiplies its number: ``tok/s (k)``.
MULTIPLE_NAME: Final = r"\((?:[kKMG]|x ?1000|1000s?|thousands?|millions?)\)"
_MULTIPLIES_NAME: Final = re.compile(MULTIPLE_NAME + r"|\bx ?1000\b")
_MEANS: Final = _words("avg average averaged mean avr overall running smoothed ema")
_FILLING: Final = _words(
    "train training trainer in the a per each of last current cur total timer perf timing_s "
    "info debug"
)
#: Of no iteration of training, or of more than one.
_OF_ELSE: Final = _words(
    "eval evaluation val valid validation test data load loading read reader max min peak best "
    "generate generation epoch eta left remaining until since lr"
)


@dataclass(frozen=True, slots=True)
class Speed:
    """What a number says of how fast training is."""

    number: Quantity
    group: Group
    #: What a rate counts; empty where nothing says it, and for a time.
    unit: str
    is_of_device: bool = False
    is_mean: bool = False
    #: Whether a time is said to be of one iteration.
    is_of_iteration: bool = False
    #: Why a pattern would guess, in words; empty where its meaning is known.
    doubt: str = ""


def _parts(text: str) -> list[list[str]]:
    """Return the words of a unit: what is counted, then what it is counted per."""
    text = re.sub(r"(?:[ _]|\b)per[ _]", "/", text.lower())
    return [re.findall(r"[a-z\u00b5\u03bc]+", part) for part in text.split("/")]


@dataclass(frozen=True, slots=True)
class _Unit:
    """A unit that is known."""

    group: Group
    unit: str = ""
    is_of_device: bool = False
    is_of_iteration: bool = False
    #: As printed, where no pattern reads it.
    odd_unit: str = ""


def _unit_of(text: str) -> _Unit | None:
    """Return what a unit means; None if it is neither a rate's nor a time's."""
    parts = _parts(text.strip())
    if any(len(part) > 1 for part in parts[1:]):
        return None
    below = {part[0] for part in parts[1:] if part}
    above = set(parts[0]) - _MEANS - _FILLING - _DEVICE
    is_of_device, below = bool((below | {*parts[0]}) & _DEVICE), below - _DEVICE
    for words, group in ((SECOND, "seconds"), (MILLISECOND, "milliseconds"), (OTHER_TIMES, "")):
        if above and above <= words and below <= _ITERATION:
            return _Unit(
                group,  # type: ignore[arg-type]
                is_of_iteration=bool(below),
                odd_unit="" if group else text.strip(),
            )
    if len(below) != 1 or not below <= SECOND:
        return None
    for words, counted in ((_TOKENS, "tokens"), (_SAMPLES, SAMPLES), (_ITERATION, ITERATIONS)):
        if above and above <= words:
            return _Unit("rate", counted, is_of_device)
    return None if above else _Unit("rate", "", is_of_device)


def speed_of(number: Quantity) -> Speed | None:
    """Return what a number says of the speed; None if it says nothing, or of something else."""
    if not number.is_whole:
        return None
    name = number.name.rpartition("/")[2] if "/" in number.name else number.name
    words = set(re.findall(r"[a-z\u00b5]+", number.name.lower()))
    if words & _OF_ELSE:
        return None
    after = _unit_of(MULTIPLIES.sub("", number.unit)) if number.unit else None
    named = _unit_of_name(number.name) or _unit_of_name(name)
    is_mean = bool(words & _MEANS)
    is_of_device = bool(words & (_DEVICE | _OF_DEVICE)) or any(
        unit is not None and unit.is_of_device for unit in (after, named)
    )
    unit = after or named
    short = next((_SHORT[word] for word in sorted(words) if word in _SHORT), None)
    if (unit is not None and unit.group == "rate") or short or words & _RATES:
        counted = unit.unit if unit is not None and unit.group == "rate" else ""
        counted = counted or short or ""
        if unit is not None and unit.group != "rate" and not short:
            return None
        return Speed(
            number,
            "rate",
            counted,
            is_of_device=is_of_device,
            is_mean=is_mean,
            doubt=_doubt_of_rate(number, counted),
        )
    return _time_of(number, words, after, named, is_mean=is_mean)


def _doubt_of_rate(number: Quantity, counted: str) -> str:
    if _MULTIPLIES_NAME.search(number.name):
        return "its name multiplies it, and a pattern reads it as it is"
    return "" if counted else "nothing says what it counts"


def _time_of(
    number: Quantity,
    words: set[str],
    after: _Unit | None,
    named: _Unit | None,
    *,
    is_mean: bool,
) -> Speed | None:
    unit = after or named
    units = SECOND | MILLISECOND | OTHER_TIMES
    # A word like "s" of another meaning is no time; what is not known is none either
    foreign = words - _ITERATION - _TIMES - _MEANS - _FILLING - units
    is_named = bool(words & _TIMES)
    is_of_iteration = bool(words & _ITERATION) or (unit is not None and unit.is_of_iteration)
    if foreign and not (after is not None and after.is_of_iteration):
        return None
    if unit is None and not is_named:
        return None
    if unit is not None and not (is_named or is_of_iteration or after is not None):
        return None
    if words & {"total", "elapsed"} and not is_of_iteration:
        return None
    if not words and not is_of_iteration and number.unit.strip().lower() not in MILLISECOND:
        return None
    doubt = ""
    if unit is None:
        doubt = "nothing says whether it is in seconds or in milliseconds"
    elif not unit.group:
        doubt = f"it is in {unit.odd_unit}, and a pattern reads seconds and milliseconds"
    elif words & _SEVERAL and not unit.is_of_iteration:
        doubt = "it is the time of several iterations"
    return Speed(
        number,
        unit.group if unit is not None else "",
        "",
        is_mean=is_mean,
        is_of_iteration=is_of_iteration,
        doubt=doubt,
    )


def _unit_of_name(name: str) -> _Unit | None:
    """Return the unit that a name is, or ends with: ``(ms)``, ``_ms``, ``in s``."""
    texts = [name, re.sub(r"\s*[(\[].*$", "", name)]
    ending = re.search(
        r"(?:[(\[]([^()\[\]]+)[)\]]?|_([A-Za-z\u00b5]+)| in ([A-Za-z\u00b5]+))$", name
    )
    if ending is not None:
        texts.append(next(text for text in ending.groups() if text))
    return next((unit for text in texts if (unit := _unit_of(text)) is not None), None)
