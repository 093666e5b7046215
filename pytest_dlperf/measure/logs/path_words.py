"""What a log's path says of the run: a layout folder, and the words of the file's name.

Names are written for people, and the same letters mean other things: ``efficientnet_b0``,
``vit_b16`` and ``cifar_c10`` are models and data, ``gpu3`` is one of several. Such words are left
out; what is unsure is not taken.
"""

from __future__ import annotations

import re
from typing import Final

_LAYOUT: Final = re.compile(r"(?<![A-Za-z0-9])(\d{1,4})n(\d{1,4})[gc](?![A-Za-z0-9])")
_NC: Final = re.compile(r"_N(\d{1,4})C(\d{1,4})(?![0-9])")
#: ``8gpus``, ``gpus8``: a count, whatever the number.
_COUNT: Final = re.compile(
    r"(?:(?<![A-Za-z0-9.])([1-9]\d{0,4})gpus?(?![0-9A-Za-z])"
    r"|gpus([1-9]\d{0,4})(?![0-9A-Za-z]))",
    re.IGNORECASE,
)
#: ``gpu8``, ``_c8``: a count, or an index, classes and the like.
_WORLD: Final = re.compile(r"(?:gpu|[_-]c)([1-9]\d{0,4})(?![0-9A-Za-z])")
#: ``BS4-N8``; elsewhere Slurm's ``-N2`` counts nodes.
_AFTER_BATCH: Final = re.compile(r"(?<![A-Za-z])BS\d{1,9}-N([1-9]\d{0,4})(?![0-9A-Za-z])")
#: Ways to say how many nodes, of which the devices may be those of one.
_NODES: Final = re.compile(r"(?<![0-9])([1-9]\d{0,3})[_-]?nodes?(?![A-Za-z])", re.IGNORECASE)
_CLASSES: Final = frozenset({10, 100, 1000})
_BATCH: Final = re.compile(r"(?<![A-Za-z])(?:bsz?|bz)([1-9]\d{0,8})(?![0-9A-Za-z])", re.IGNORECASE)
_LONE_B: Final = re.compile(r"(?<![A-Za-z0-9])b([1-9]\d{0,8})(?![0-9A-Za-z])", re.IGNORECASE)
#: ``<model>_b<batch>_<precision>_<run>.log``, in a layout's folder.
_LAID_OUT: Final = re.compile(r"_b([1-9]\d{0,8})_[A-Za-z0-9]{1,16}_\d{1,9}\.[a-z]{1,8}\Z")
#: Models, and sizes or patches that stand after a ``b`` in their names.
_MODELS: Final = (
    (re.compile(r"eff|mit(?![a-z])|segformer|pvt", re.IGNORECASE), range(9)),
    (re.compile(r"(?<![a-z])(?:vit|deit|beit|clip|dino)|mixer", re.IGNORECASE), (8, 14, 16, 32)),
)
_PRECISION: Final = re.compile(
    r"(?<![A-Za-z0-9])(pure_fp16|fp32|tf32|bf16|fp16|amp)(?![A-Za-z0-9])", re.IGNORECASE
)


def parts_of(path: str) -> list[str]:
    """Return the folders of a path and the name of its file, whichever way slashes lean."""
    return path.replace("\\", "/").split("/")


def world_size(path: str) -> int | None:
    """Return the devices of all nodes, or None where the path does not surely say them."""
    parts = parts_of(path)
    name = parts[-1]
    layouts = [match for part in parts[-3:] if (match := _LAYOUT.search(part))]
    if layouts:
        return int(layouts[-1][1]) * int(layouts[-1][2]) or None
    if match := _NC.search(name):
        return int(match[1]) * int(match[2]) or None
    if any(int(nodes) > 1 for nodes in _NODES.findall(name)):
        return None
    counts = {int(one or other) for one, other in _COUNT.findall(name)}
    if not counts:
        counts = {int(word) for word in _AFTER_BATCH.findall(name)}
    # A name that tells no batch and no precision may be that of one device's log: gpu4 of 0 to 7.
    if not counts and (batch_size(path) or precision(path)):
        counts = {count for word in _WORLD.findall(name) if _is_count(count := int(word))}
    return counts.pop() if len(counts) == 1 else None


def _is_count(number: int) -> bool:
    """Return whether machines have so many devices: others are an index, or classes."""
    return number not in _CLASSES and (number in {1, 2} or number % 4 == 0)


def is_laid_out(path: str) -> bool:
    """Return whether it is ``<layout>/<model>_b<batch>_<precision>_<run>.log``."""
    parts = parts_of(path)
    return (
        len(parts) > 1
        and _LAYOUT.fullmatch(parts[-2]) is not None
        and _LAID_OUT.search(parts[-1]) is not None
    )


def batch_size(path: str) -> int | None:
    """Return the batch size of a device, or None where the path does not surely say it."""
    name = parts_of(path)[-1]
    if is_laid_out(path) and (match := _LAID_OUT.search(name)):
        return int(match[1])
    if match := _BATCH.search(name):
        return int(match[1])
    for match in _LONE_B.finditer(name):
        number, before = int(match[1]), name[: match.start()]
        if not any(number in sizes and model.search(before) for model, sizes in _MODELS):
            return number
    return None


def precision(path: str) -> str | None:
    """Return the precision that the file's name has, in lower case."""
    match = _PRECISION.search(parts_of(path)[-1])
    return match[1].lower() if match else None
