"""A case's id: its parts, and the words of its own axes."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.layout import Layout

if TYPE_CHECKING:
    from pytest_dlperf.core.case import Case

#: Any other character would be none of a file's name, or end a word of ``-k``.
_WORD: Final = re.compile(r"[A-Za-z0-9_.+]+")
_NAME: Final = re.compile(r"[A-Za-z0-9_]+")
#: Whole words of an id, with hyphens within.
ID_WORDS: Final = re.compile(r"[A-Za-z0-9_.+][A-Za-z0-9_.+-]*")
_CASE_ID = re.compile(
    r"(\w+)(?:\.(\w+))?-(\w+)-(\w+)-bs(\d{1,9})(?:-([\w.+][\w.+-]*))?-(\w+)", re.ASCII
)


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


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseId:
    """The parts of an id such as ``tsm.tiny-torch-bf16-bs2-1n2c``."""

    suite: str
    size: str
    framework: str
    precision: str
    batch_size_per_device: int
    layout: Layout
    #: The words of the case's own axes, with hyphens between.
    axes: str = ""

    @classmethod
    def of(cls, case: Case) -> CaseId:
        """Return the parts of the id of ``case``."""
        return cls(
            suite=case.suite,
            size=case.size,
            framework=case.framework,
            precision=case.precision,
            batch_size_per_device=case.batch_size_per_device,
            layout=case.layout,
            axes="-".join(case.words),
        )

    @classmethod
    def parse(cls, text: str) -> CaseId:
        """Return the parts of ``text``; raise ``UsageError`` if it is not a case id."""
        match = _CASE_ID.fullmatch(text)
        if match is None:
            raise UsageError(f"{text!r} is not a case id; an example is tsm-torch-amp-bs16-1n8g")
        suite, size, framework, precision, batch_size, axes, layout = match.groups()
        return cls(
            suite=suite,
            size=size or "full",
            framework=framework,
            precision=precision,
            batch_size_per_device=int(batch_size),
            layout=Layout.parse(layout),
            axes=axes or "",
        )
