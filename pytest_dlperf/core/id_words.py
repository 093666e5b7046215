"""Words of a case's id: an option that is an axis, and what pytest's parametrize adds."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final

from pytest_dlperf.core.errors import UsageError

#: Any other character would be none of a file's name, or end a word of ``-k``.
_WORD: Final = re.compile(r"[A-Za-z0-9_.+]+")
_NAME: Final = re.compile(r"[A-Za-z0-9_]+")
#: Whole words of an id, with hyphens within.
ID_WORDS: Final = re.compile(r"[A-Za-z0-9_.+][A-Za-z0-9_.+-]*")


def is_number(value: Any) -> bool:
    """Whether an option is a number: a size, by which the work of an iteration may differ."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def option_word(name: str, value: Any) -> str:
    """Return the word of an option in an id: ``seq4096``, ``attn_flash``, ``compile``.

    A number follows the name (after ``_`` where the name ends with a digit), a text follows it
    after ``_``; ``True`` is the name alone, ``False`` no word. Raises ``UsageError`` for a name or
    a value that can be none.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(f"option {name!r} is part of ids: use letters, digits and _ only")
    if value is True or value is False:
        return name if value else ""
    if isinstance(value, str):
        if not _WORD.fullmatch(value):
            raise UsageError(
                f"option {name}: {value!r} is part of ids: use letters, digits and _ . + only; a "
                "short name for it will do, which the workload looks up"
            )
        return f"{name}_{value}"
    if not math.isfinite(value):
        raise UsageError(f"option {name}: {value!r} is part of ids: give a finite number")
    return f"{name}_{value!r}" if name[-1].isdigit() else f"{name}{value!r}"


def parameter_words(parameters: Mapping[str, Any], ids: str) -> tuple[str, ...]:
    """Return the words of what a test is parametrized with; ``ids`` is what pytest calls it.

    Texts, numbers and truth values have the words of options; where the test gives ids of its
    own, or other values, those ids are taken. Characters that no id can have become ``_``.
    """
    if ids == "-".join(map(str, parameters.values())):
        try:
            words = [option_word(name, value) for name, value in parameters.items()]
        except (UsageError, TypeError):
            pass
        else:
            return tuple(filter(None, words))
    text = re.sub(r"[^A-Za-z0-9_.+-]", "_", ids)
    return (text if ID_WORDS.fullmatch(text) else f"_{text}",)
