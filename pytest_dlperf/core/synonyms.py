"""Words that mean the same: units and precisions, as logs, reports and cases call them."""

from __future__ import annotations

from typing import Final

#: What a model is fed: each of them is a ``sample``. A token is not: a sample has many.
_SAMPLES: Final = frozenset({"images", "clips", "sequences"})
_GENERIC: Final = "samples"
#: Other words for the precisions of cases. ``fp16`` alone does not say whether all of it is.
_MEANINGS: Final = {
    "fp16": frozenset({"amp", "pure_fp16"}),
    "float16": frozenset({"amp", "pure_fp16"}),
    "bfloat16": frozenset({"bf16"}),
    "float32": frozenset({"fp32"}),
}


def same_unit(one: str, other: str) -> bool:
    """Whether two units count the same thing; ``samples`` is the generic word."""
    if one == other:
        return True
    return (one == _GENERIC and other in _SAMPLES) or (other == _GENERIC and one in _SAMPLES)


def same_precision(one: str, other: str) -> bool:
    """Whether two words may name one precision."""
    return one == other or bool(precisions(one) & precisions(other))


def precisions(word: str) -> frozenset[str]:
    """Return the precisions of cases that ``word`` may mean."""
    return _MEANINGS.get(word, frozenset({word}))
