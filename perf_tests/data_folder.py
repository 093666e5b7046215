"""Folders and lists of real data, as all suites read them; standard library only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pytest_dlperf.worker.failure import WorkerFailure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


#: Of ImageNet's channels, in shares of 255.
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


class LabelledFile(NamedTuple):
    """One image and its class."""

    path: Path
    label: int


def candidates(data: str, suite: str) -> Iterator[Path]:
    """Yield where the data of ``suite`` may lie: its sub-folder of ``data``, then ``data``.

    Raises ``WorkerFailure`` if there is no such folder.
    """
    folder = Path(data)
    if not folder.is_dir():
        raise WorkerFailure(
            "data-missing",
            f"--dlperf-data={data} is not a directory here; name the one that has the "
            "data sets, as the ranks see it",
        )
    if (folder / suite).is_dir():
        yield folder / suite
    yield folder


def first_file(data: str, suite: str, names: Sequence[str]) -> Path:
    """Return the first file of ``names`` in the folder of ``suite``."""
    for folder in candidates(data, suite):
        for name in names:
            if (folder / name).is_file():
                return folder / name
    raise other_format(data, suite, f"list {' or '.join(names)}")


def other_format(data: str, suite: str, wanted: str) -> WorkerFailure:
    """Return the failure of a folder without what ``suite`` reads."""
    return WorkerFailure(
        "data-format",
        f"--dlperf-data={data} has no {wanted}, neither itself nor in {suite}/; put the data set "
        "there as docs/data.md shows it",
    )


def list_lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the lines of a list, and where each stands, as ``FILE, line N``.

    Empty lines are left out. Raises ``WorkerFailure`` if there are no others.
    """
    empty = True
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                empty = False
                yield line.strip(), f"{path}, line {number}"
    if empty:
        raise WorkerFailure(
            "data-empty", f"{path} is empty; write one sample a line, as docs/data.md shows it"
        )


def fields(line: str, where: str, pattern: str) -> list[str]:
    """Return the path of a list's line, in which spaces are allowed, and its numbers as text.

    ``pattern`` names the fields, for instance ``path label``.
    """
    names = pattern.split()
    found = line.rsplit(maxsplit=len(names) - 1)
    if len(found) != len(names) or not all(text.lstrip("-").isdecimal() for text in found[1:]):
        raise WorkerFailure(
            "data-line", f"{where} cannot be read: {line[:200]!r}; write '{pattern}' there"
        )
    return found


def checked_label(label: int, classes: int, where: object) -> int:
    """Return ``label`` if the model has that class."""
    if not 0 <= label < classes:
        raise WorkerFailure(
            "data-label",
            f"{where}: label {label} is out of range, the model has the classes 0 to "
            f"{classes - 1}; correct it, or take a size (--dlperf-size) with as many classes",
        )
    return label
