"""Read a log's path: the training that it names, its world size, batch size and precision.

Names are written for people, and the same letters mean other things: ``efficientnet_b0``,
``vit_b16`` and ``cifar_c10`` are models and data, ``gpu3`` is one of several. Such words are left
out; what is unsure is not taken.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.id_words import CaseId

_PLACE_FOLDER: Final = re.compile(r"(\d{1,4})n(\d{1,4})[gc]")
_PLACE_NAME: Final = re.compile(
    r"(?P<model>.{1,200})_b(?P<batch>\d{1,9})_(?P<precision>[A-Za-z0-9]{1,16})_(?P<run>\d{1,9})"
)
#: World size, batch and precision: they are known by other means, and compared.
_LAYOUT_WORD: Final = re.compile(
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
_LAYOUT: Final = re.compile(r"(?<![A-Za-z0-9])(\d{1,4})n(\d{1,4})[gc](?![A-Za-z0-9])")
_NC: Final = re.compile(r"_N(\d{1,4})C(\d{1,4})(?![0-9])")
#: ``8gpus``, ``gpus8``: always a count; ``4*8gpus`` is a product.
_COUNT: Final = re.compile(
    r"(?:(?<![A-Za-z0-9.*])([1-9]\d{0,4})gpus?(?![0-9A-Za-z])"
    r"|gpus([1-9]\d{0,4})(?![0-9A-Za-z]))",
    re.IGNORECASE,
)
#: ``gpu8``, ``_c8``: a count, or an index, classes and the like.
_WORLD: Final = re.compile(r"(?:gpu|[_-]c)([1-9]\d{0,4})(?![0-9A-Za-z])")
#: ``BS4-N8``; elsewhere Slurm's ``-N2`` counts nodes.
_AFTER_BATCH: Final = re.compile(r"(?<![A-Za-z])BS\d{1,9}-N([1-9]\d{0,4})(?![0-9A-Za-z])")
#: Ways to say how many nodes, or which, of which the devices may be those of one.
_NODES: Final = re.compile(
    r"(?<![0-9])(?P<before>\d{1,4})[ _-]?(?:node|host|machine|server)s?(?![A-Za-z])"
    r"|(?<![A-Za-z])n{0,2}(?:node|host|machine|server)s?[ _=-]?(?P<after>\d{1,4})(?![0-9A-Za-z])",
    re.IGNORECASE,
)
#: The same in a file's name; a folder's has it as its whole name.
_SHORT_NODES: Final = re.compile(
    r"(?<![A-Za-z0-9.])(?:(?P<count>\d{1,4})n|n(?P<number>\d{1,4}))(?![A-Za-z0-9])",
    re.IGNORECASE,
)
_PER_NODE: Final = re.compile(
    r"(?<![A-Za-z])(?:per|each)[ _-]?(?:node|host|machine|server)(?![A-Za-z])", re.IGNORECASE
)
_CLASSES: Final = frozenset({10, 100, 1000})
_BATCH: Final = re.compile(r"(?<![A-Za-z])(?:bsz?|bz)([1-9]\d{0,8})(?![0-9A-Za-z])", re.IGNORECASE)
#: Words beside a batch size: of training, of evaluation.
_ROLE: Final = re.compile(
    r"(?<![A-Za-z])(?:(?P<trains>(?:pre)?train(?:ing)?|trn|fine-?tun(?:e|ing))"
    r"|(?P<evaluates>eval(?:uate|uation)?|val(?:id(?:ation)?)?|dev|infer(?:ence)?"
    r"|pred(?:ict(?:ion)?)?))(?![A-Za-z])",
    re.IGNORECASE,
)
#: Words by which a name counts the batch of all devices; ``mbs`` is a device's beside that.
_OF_ALL: Final = re.compile(
    r"(?<![A-Za-z])(?:global|total|effective|overall|aggregated?|combined|mbs)(?![A-Za-z])",
    re.IGNORECASE,
)
#: The same in a folder's name, whose other words say nothing of a batch.
_OF_ALL_FOLDER: Final = re.compile(
    r"(?<![A-Za-z])(?:global|total|effective)[ _-]?(?:batch|bsz?)(?![A-Za-z])", re.IGNORECASE
)
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """What a path of this layout says: ``<layout>/<model>_b<batch>_<precision>_<run>.log``."""

    layout: str
    world_size: int
    model: str
    batch_size_per_device: int
    precision: str
    run: int

    @classmethod
    def of(cls, path: str) -> Place | None:
        """Return the parts of the path, or None if it has another layout."""
        pure = PurePath(path)
        layout = _PLACE_FOLDER.fullmatch(pure.parent.name)
        name = _PLACE_NAME.fullmatch(pure.stem)
        if layout is None or name is None:
            return None
        return cls(
            layout=layout[0],
            world_size=int(layout[1]) * int(layout[2]),
            model=name["model"],
            batch_size_per_device=int(name["batch"]),
            precision=name["precision"].lower(),
            run=int(name["run"]),
        )


def name_of(path: str, root: str = "") -> str:
    """Return the words of a log's name, and of its folders below ``root``, that name a training.

    Empty where nothing but run numbers, times, layout words and words like ``train`` is there.
    """
    pure = PurePath(path)
    name = _bare(_LAYOUT_WORD.sub("-", _stem(pure).lower().replace("_", "-")))
    return "/".join([*_folders(pure, root), name] if name else _folders(pure, root))


def _folders(path: PurePath, root: str) -> list[str]:
    """Return what the folders between ``root`` and ``path`` say."""
    try:
        folders = path.relative_to(root).parts[:-1] if root else ()
    except ValueError:
        return []
    return [word for folder in folders if (word := _bare(folder))]


def key_of(path: str, setup: str, root: str, *, named: bool = True) -> str:
    """Return the key by which a training of one side is matched with that of the other.

    A case's id where the name has it, the place in a folder laid out by layout, else what the
    name says (not if ``named`` is false), with ``setup``: what the log says of the training. Logs
    of one key are runs of one training.
    """
    pure = PurePath(path)
    for part in (_NUMBER.sub("", _stem(pure)), *reversed(pure.parts[-4:-1])):
        try:
            CaseId.parse(part)
        except UsageError:
            continue
        return part
    place = Place.of(path)
    if place is not None:
        where = _folders(pure.parent, root) if named else ()
        name = "/".join([*where, place.model])
        return f"{name}-{place.precision}-bs{place.batch_size_per_device}-{place.layout}"
    name = name_of(path, root) if named else ""
    return f"{name}-{setup}" if name else setup


def _stem(path: PurePath) -> str:
    """Return the name without its ending; ``train.log.2`` has two."""
    name = re.sub(r"\.(?:log|txt|out|err|json|jsonl)(?=\.|$)", "", path.name, flags=re.IGNORECASE)
    return name or path.name


def _bare(text: str) -> str:
    text = text.lower().replace("_", "-")
    for pattern in (_TIME, _RUN, _NUMBER, _PLAIN):
        text = pattern.sub("-", text)
    return _GAPS.sub("-", text).strip("-")


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
    in_name = _SHORT_NODES.finditer(_AFTER_BATCH.sub("", name))
    in_folders = [match for part in parts[-3:-1] if (match := _SHORT_NODES.fullmatch(part))]
    if any(map(_has_nodes, parts[-3:])) or any(map(_is_several, [*in_name, *in_folders])):
        return None
    counts = {int(before or after) for before, after in _COUNT.findall(name)}
    if not counts:
        counts = {int(word) for word in _AFTER_BATCH.findall(name)}
    # A name without batch and precision may be that of one device's log: gpu4 of 0 to 7.
    if not counts and (_batches(name) or precision(path)):
        counts = {count for word in _WORLD.findall(name) if _is_count(count := int(word))}
    return counts.pop() if len(counts) == 1 else None


def _has_nodes(part: str) -> bool:
    """Return whether a part of a path names several nodes, one of them, or what each has."""
    return _PER_NODE.search(part) is not None or any(map(_is_several, _NODES.finditer(part)))


def _is_several(nodes: re.Match[str]) -> bool:
    """Return whether a number of nodes, before the word or after it, is more than 1."""
    return any(int(number) > 1 for number in nodes.groups() if number)


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
    """Return the batch size of a device, or None where the path does not surely say it.

    The batch of all devices is none, nor is that of an evaluation; of two, training's is taken.
    """
    parts = parts_of(path)
    name = parts[-1]
    if is_laid_out(path) and (match := _LAID_OUT.search(name)):
        return int(match[1])
    if _OF_ALL.search(name) or any(map(_OF_ALL_FOLDER.search, parts[-3:-1])):
        return None
    batches = _batches(name)
    roles = [*_ROLE.finditer(name)]
    sizes = {int(batch[1]) for batch in batches}
    # ``bs8_eval_bs32``: the word may be that of either.
    if batches and roles and batches[0].start() < roles[0].start():
        is_unsure = len(sizes) > 1 or any(role["evaluates"] for role in roles)
        return None if is_unsure else sizes.pop()
    trained, plain = set(), set()
    for batch, before in zip(batches, [None, *batches], strict=False):
        begin = before.end() if before else 0
        words = [role for role in roles if begin <= role.start() < batch.start()]
        if not words:
            plain.add(int(batch[1]))
        elif words[-1]["trains"]:
            trained.add(int(batch[1]))
    sizes = trained or plain
    return sizes.pop() if len(sizes) == 1 else None


def _batches(name: str) -> list[re.Match[str]]:
    """Return where a file's name has a batch size, be it of one device or not."""
    return [*_BATCH.finditer(name)] or [
        match
        for match in _LONE_B.finditer(name)
        if not any(
            int(match[1]) in sizes and model.search(name[: match.start()])
            for model, sizes in _MODELS
        )
    ]


def precision(path: str) -> str | None:
    """Return the precision that the file's name has, in lower case."""
    match = _PRECISION.search(parts_of(path)[-1])
    return match[1].lower() if match else None
