"""What a line says of its training besides the numbers that a user's pattern reads.

A pattern need not name the loss: a training that is lost is as fast as ever, or faster. Only names
that are the training's own count, ``loss`` and ``train_loss``, and none of a part or of another
data set.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Final

from pytest_dlperf.measure.logs.declare import NOT_FINITE, NUMBER

_NUMBER: Final = (
    rb"['\"]?(?:\s{0,8}[:=]\s{0,8}|\s{1,8}(?:is )?)['\"]?(?:tensor\()?(?:"
    + NUMBER
    + rb"|"
    + NOT_FINITE
    + rb")(?!\s?%)"
)
_LOSS: Final = re.compile(rb"(?i:loss)" + _NUMBER)
_NORM: Final = re.compile(rb"(?i:grad(?:ient)?s?[_ -]?norm|gnorm)" + _NUMBER)
#: Words before a name that leave it the training's own.
_OWN: Final = (
    rb"(?:train(?:ing)?|total|lm|mean|avg|average|step|batch|iter|model|running|global|current|cur"
    rb"|last)"
)
_BEFORE: Final = re.compile(rb"(?i)(?:^|[^\w./-]|(?<![a-z])" + _OWN + rb"[_/.-])$")
_WORD_BEFORE: Final = re.compile(rb"([A-Za-z][\w/.-]*) $")
_OWN_WORD: Final = re.compile(rb"(?i)" + _OWN + rb"|with|and|the|has|nan|inf")
#: Words of a log's levels, as ``INFO``.
_LEVEL: Final = re.compile(rb"[A-Z]{4,8}")
_LOOKS_BEFORE: Final = 64


def loss_of(line: bytes) -> float | None:
    """Return the training's loss by a line; infinite if it is not finite, None without.

    Of several it is the largest that is finite: all of them have to be lost, or 0.
    """
    return _least_lost(_values(_LOSS, line)) if b"oss" in line or b"OSS" in line else None


def norm_of(line: bytes) -> float | None:
    """Return the norm of the gradients by a line, as ``loss_of`` does."""
    return _least_lost(_values(_NORM, line)) if b"orm" in line or b"ORM" in line else None


def _values(name: re.Pattern[bytes], line: bytes) -> Iterator[float]:
    for match in name.finditer(line):
        before = line[max(0, match.start() - _LOOKS_BEFORE) : match.start()]
        word = _WORD_BEFORE.search(before)
        is_own = _BEFORE.search(before) is not None and (
            word is None or _OWN_WORD.fullmatch(word[1]) or _LEVEL.fullmatch(word[1])
        )
        if is_own:
            yield math.inf if match[1] is None else float(match[1].replace(b",", b""))


def _least_lost(values: Iterator[float]) -> float | None:
    each = list(values)
    finite = [value for value in each if math.isfinite(value)]
    return max(finite, key=abs) if finite else math.inf if each else None
