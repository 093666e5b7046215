"""Which number of a line is a rate or the time of an iteration, by its name and its unit.

A name or a unit that is not wholly known makes none: ``data_time`` is no time of an iteration.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, Literal

from pytest_dlperf.core.log_pattern import Scope
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
_DEVICE: Final = _words("gpu gpus npu npus device devices chip chips core cores tpu rank")
#: Whose work a rate counts, where that is neither one device's nor all devices'.
_SCOPES: Final[dict[str, Scope]] = {
    "node": "node",
    "host": "node",
    "machine": "node",
    "replica": "replica",
    "process": "process",
}
#: A part of the devices, which may be one or a node's.
_PARTS_OF_ALL: Final = _words("worker workers local trainer_local shard")
_ALL_DEVICES: Final = _words(
    "global cluster all system aggregate aggregated total overall e2e end job whole combined"
)
#: What a rate counts, by the word that is printed. tqdm calls anything that it counts ``it``.
COUNTED: Final[dict[str, str]] = {
    **dict.fromkeys(_TOKENS, "tokens"),
    **dict.fromkeys(_SAMPLES, SAMPLES),
    **dict.fromkeys(_ITERATION - {"it", "its"}, ITERATIONS),
}
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
    "train training trainer in the a per each of last current cur total timer perf timing "
    "timing_s info debug for over at on with and is was now actual this metric metrics stats "
    "log logs main model net learner"
)
#: Of no iteration of training, or of more than one.
_OF_ELSE: Final = _words(
    "eval evaluation val valid validation test data load loading read reader max min peak "
    "best generate generated generating generation gen epoch eta left remaining until since "
    "lr learning rollout rollouts inference infer decode decoding prefill prompt prompts "
    "completion completions sampling sampler actor critic reward ref dataloader loader "
    "dataset preprocess preprocessing prefetch augmentation tokenizer tokenize io disk "
    "network download upload target goal expected baseline previous reference env envs "
    "environment environments simulation collection collect fwd forward bwd backward compile "
    "warmup checkpoint ckpt save saving comm"
)
#: Words that say whose work a rate counts.
_WHOSE_WORDS: Final = (
    _DEVICE | _PARTS_OF_ALL | {*_SCOPES} | {f"{word}s" for word in _SCOPES} | {"processes"}
)
#: Words that leave open nothing of what a number is.
_KNOWN: Final = (
    _ITERATION
    | _TOKENS
    | _SAMPLES
    | _TIMES
    | _RATES
    | {*_SHORT}
    | _MEANS
    | _FILLING
    | SECOND
    | MILLISECOND
    | OTHER_TIMES
    | _ALL_DEVICES
    | _WHOSE_WORDS
)
#: Text behind a unit that says whose it is: ``tokens/s on this GPU``.
_WHOSE: Final = re.compile(
    r"\s?[(\[]?(?:on|of|for|per|at|in|a) (?:(?:this|each|one|every|the) )?"
    r"(?P<whose>[A-Za-z]{3,12})\b"
    r"|\s?[(\[](?P<alone>[A-Za-z]{3,12})[)\]]"
)


UNIT_UNSAID: Final = "nothing says whether it is in seconds or in milliseconds"
#: Seconds, or milliseconds, since 1970: a time stamp.
_UNIX: Final = re.compile(r"1[4-9]\d{8}(?:\d{3})?(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class Speed:
    """What a number says of how fast training is."""

    number: Quantity
    group: Group
    #: What a rate counts; empty where nothing says it, and for a time.
    unit: str
    scope: Scope = "global"
    is_mean: bool = False
    #: Whether a time is said to be of one iteration.
    is_of_iteration: bool = False
    #: Words of its name that are not known, so that it may be of something else.
    foreign: frozenset[str] = field(default=frozenset())
    #: Why a pattern would guess, in words; empty where its meaning is known.
    doubt: str = ""
    #: The word by which it is of one device or of several: the user knows which.
    part: str = ""

    @property
    def is_plain(self) -> bool:
        """Whether all words of its name are known, and it is of all devices and no mean."""
        return not self.foreign and not self.is_mean and self.scope == "global" and not self.doubt


def _parts(text: str) -> list[list[str]]:
    """Return the words of a unit: what is counted, then what it is counted per."""
    text = re.sub(r"(?:[ _]|\b)per[ _]", "/", text.lower())
    return [re.findall(r"[a-z\u00b5\u03bc]+", part) for part in text.split("/")]


def _words_of(name: str) -> frozenset[str]:
    """Return the words of a name; digits within one, as in ``all2all``, are a part of it."""
    return frozenset(re.findall(r"[a-z\u00b5\u03bc]+(?:\d+[a-z]+)*", name.lower()))


def _scope_of(words: frozenset[str]) -> Scope | None:
    """Return whose work a rate counts by words that name it; None if they name nothing of it."""
    if words & (_DEVICE | _OF_DEVICE):
        return "device"
    return next((scope for word, scope in _SCOPES.items() if {word, f"{word}s"} & words), None)


@dataclass(frozen=True, slots=True)
class _Unit:
    """A unit that is known."""

    group: Group
    unit: str = ""
    #: What the rate is counted per beside the time, in words that are known.
    per: frozenset[str] = field(default=frozenset())
    is_of_iteration: bool = False
    #: As printed, where no pattern reads it.
    odd_unit: str = ""


def unit_of(text: str) -> _Unit | None:
    """Return what a unit means; None if it is neither a rate's nor a time's."""
    above_line, *below_line = _parts(text.strip())
    unsaid = _MEANS | _FILLING | _ALL_DEVICES
    parts = [[word for word in part if word not in unsaid] for part in below_line]
    if any(len(part) > 1 for part in parts):
        return None
    below = {part[0] for part in parts if part}
    above = set(above_line) - unsaid - _WHOSE_WORDS
    per = frozenset((below | {*above_line}) & _WHOSE_WORDS)
    below -= _WHOSE_WORDS
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
            return _Unit("rate", counted, per)
    return None if above else _Unit("rate", "", per)


def speed_of(number: Quantity) -> Speed | None:
    """Return what a number says of the speed; None if it says nothing, or of something else."""
    if not number.is_whole or _UNIX.fullmatch(number.text):
        return None
    name = number.name.rpartition("/")[2] if "/" in number.name else number.name
    words = _words_of(number.name)
    if words & _OF_ELSE:
        return None
    after = unit_of(MULTIPLIES.sub("", number.unit)) if number.unit else None
    named = unit_of_name(number.name) or unit_of_name(name)
    is_mean = bool(words & _MEANS)
    unit = after or named
    short = next((_SHORT[word] for word in sorted(words) if word in _SHORT), None)
    if (unit is not None and unit.group == "rate") or short or words & _RATES:
        if unit is not None and unit.group != "rate" and not short:
            return None
        counted = unit.unit if unit is not None and unit.group == "rate" else ""
        counted = counted or short or ""
        whose = _whose(number, words, after, named)
        scope = _scope_of(whose)
        part = "" if scope else min(whose & _PARTS_OF_ALL, default="")
        return Speed(
            number,
            "rate",
            counted,
            scope=scope or ("device" if part else "global"),
            part=part,
            is_mean=is_mean,
            foreign=words - _KNOWN,
            doubt=_doubt_of_rate(number, counted),
        )
    return _time_of(number, words, after, named, is_mean=is_mean)


def _whose(
    number: Quantity, words: frozenset[str], after: _Unit | None, named: _Unit | None
) -> frozenset[str]:
    """Return the words that say whose work a rate counts."""
    behind = _WHOSE.match(number.after)
    told = () if behind is None else ((behind["whose"] or behind["alone"]).lower(),)
    units = (unit.per for unit in (after, named) if unit is not None)
    return frozenset.union(words, told, *units) & (_WHOSE_WORDS | _OF_DEVICE)


def _doubt_of_rate(number: Quantity, counted: str) -> str:
    if _MULTIPLIES_NAME.search(number.name):
        return "its name multiplies it, and a pattern reads it as it is"
    if number.has_next_unit:
        return "the unit behind it may be that of the next number"
    if not counted:
        return "nothing says what it counts"
    return ""


def _time_of(
    number: Quantity,
    words: frozenset[str],
    after: _Unit | None,
    named: _Unit | None,
    *,
    is_mean: bool,
) -> Speed | None:
    unit = after or named
    # A word like "s" of another meaning is no time; what is not known is none either
    foreign = words - _KNOWN
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
    return Speed(
        number,
        unit.group if unit is not None else "",
        "",
        is_mean=is_mean,
        is_of_iteration=is_of_iteration,
        foreign=foreign,
        doubt=_doubt_of_time(number, words, unit),
    )


def _doubt_of_time(number: Quantity, words: frozenset[str], unit: _Unit | None) -> str:
    foreign = words - _KNOWN
    if number.has_next_unit:
        return "the unit behind it may be that of the next number"
    if foreign:
        named = " ".join(repr(word) for word in sorted(foreign))
        return f"{named} may be a part of an iteration, or another loop"
    if unit is None:
        return UNIT_UNSAID
    if not unit.group:
        return f"it is in {unit.odd_unit}, and a pattern reads seconds and milliseconds"
    if words & _SEVERAL and not unit.is_of_iteration:
        return "it is the time of several iterations"
    return ""


def unit_of_name(name: str) -> _Unit | None:
    """Return the unit that a name is, or ends with: ``(ms)``, ``_ms``, ``in s``."""
    texts = [name, re.sub(r"\s*[(\[].*$", "", name)]
    ending = re.search(
        r"(?:[(\[]([^()\[\]]+)[)\]]?|(?<!per)_([A-Za-z\u00b5]+)| in ([A-Za-z\u00b5]+))$", name
    )
    if ending is not None:
        texts.append(next(text for text in ending.groups() if text))
    return next((unit for text in texts if (unit := unit_of(text)) is not None), None)
