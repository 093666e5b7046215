"""What training a log is of, by its name: what is left without run number and layout words."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from pytest_dlperf.core.case_id import CaseId
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.measure.logs.layout_summary import Place

if TYPE_CHECKING:
    from pytest_dlperf.measure.logs.extract import LogResult

#: World size, batch and precision: they are known by other means, and compared.
_LAYOUT: Final = re.compile(
    r"(?<![a-z0-9])(?:\d{1,4}n\d{1,4}[gc]|n\d{1,4}c\d{1,4}|(?:gpus?|c|n)\d{1,5}|\d{1,5}gpus?"
    r"|(?:(?:bsz?|bz)\d{1,9}|b\d{2,9})|pure-fp16|fp32|tf32|bf16|fp16|amp|dp)(?![a-z0-9])"
)
#: ``run1``, ``job-3``: a number after a word that counts runs.
_RUN: Final = re.compile(
    r"(?<![a-z])(?:run|trial|repeat|rep|try|attempt|seed|job|train|training|test|exp|log|"
    r"worker|workerlog|rank)[ ._-]?\d{1,20}"
)
#: ``2022-02-05``, ``20220205_043342``, ``04-33-42``.
_TIME: Final = re.compile(r"(?<!\d)(?:\d{4}-\d\d-\d\d|\d{8}|\d{6}|\d\d[-:]\d\d[-:]\d\d)(?!\d)")
#: A number alone at the end.
_NUMBER: Final = re.compile(r"(?:^|[ ._-])\d{1,20}[ ._-]*$")
#: Words that name no training.
_PLAIN: Final = re.compile(
    r"(?<![a-z0-9])(?:log|logs|train|training|out|output|stdout|stderr|worker|run|runs|txt|bench"
    r"|benchmark)(?![a-z0-9])"
)
_GAPS: Final = re.compile(r"[ ._-]+")


def name_of(path: str, root: str = "") -> str:
    """Return the words of a log's name, and of its folders below ``root``, that name a training.

    Empty where nothing but run numbers, times, layout words and words like ``train`` is there.
    """
    pure = PurePath(path)
    name = _bare(_LAYOUT.sub("-", _stem(pure).lower().replace("_", "-")))
    return "/".join([*_folders(pure, root), name] if name else _folders(pure, root))


def _folders(path: PurePath, root: str) -> list[str]:
    """Return what the folders between ``root`` and ``path`` say."""
    try:
        folders = path.relative_to(root).parts[:-1] if root else ()
    except ValueError:
        return []
    return [word for folder in folders if (word := _bare(folder))]


def key_of(result: LogResult, root: str, *, named: bool = True) -> str:
    """Return by which name trainings of two sides are told apart and found again.

    A case's id where the name has it, the place in a folder laid out by layout, else what the
    name says (not if ``named`` is false), with format, precision, batch size and devices. Logs of
    one key are runs of one training.
    """
    pure = PurePath(result.path)
    for part in (_NUMBER.sub("", _stem(pure)), *reversed(pure.parts[-4:-1])):
        try:
            CaseId.parse(part)
        except UsageError:
            continue
        return part
    place = Place.of(result.path)
    if place is not None:
        where = _folders(pure.parent, root) if named else ()
        name = "/".join([*where, place.model])
        return f"{name}-{place.precision}-bs{place.batch_size_per_device}-{place.layout}"
    name = name_of(result.path, root) if named else ""
    return (
        f"{f'{name}-' if name else ''}{result.format}-{result.precision or 'unknown precision'}-"
        f"bs{result.batch_size_per_device or '?'}-{result.world_size or '?'} devices"
    )


def _stem(path: PurePath) -> str:
    """Return the name without its ending; ``train.log.2`` has two."""
    name = re.sub(r"\.(?:log|txt|out|err|json|jsonl)(?=\.|$)", "", path.name, flags=re.IGNORECASE)
    return name or path.name


def _bare(text: str) -> str:
    text = text.lower().replace("_", "-")
    for pattern in (_TIME, _RUN, _NUMBER, _PLAIN):
        text = pattern.sub("-", text)
    return _GAPS.sub("-", text).strip("-")
