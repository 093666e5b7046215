"""``<machine class>/noise.json``: noise of a machine class, learnt from stored sessions."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pytest_dlperf.core.codec import DecodeError, decode, encode
from pytest_dlperf.core.errors import BaselineError, UsageError
from pytest_dlperf.core.verdict import LearntNoise, MachineNoise, Prior
from pytest_dlperf.store.baseline import file_format
from pytest_dlperf.store.baseline.replace_file import locked, replace_file

NAME: Final = "noise.json"
#: Version of the file. 1: the first.
FILE_FORMAT: Final = 1
_ABOVE_ZERO: Final = (
    "run_sd", "run_df", "session_sd", "session_df", "median_run_sd", "median_run_df",
)  # fmt: skip


def read(root: Path, machine_class: str) -> MachineNoise | None:
    """Return the noise of ``machine_class``; None if none was learnt yet.

    Raises ``BaselineError`` for a file that is not what it claims to be, naming file and field.
    """
    path = root / machine_class / NAME
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BaselineError(f"{path}: cannot be read ({error.strerror})") from error
    try:
        return _decoded(content, machine_class)
    except DecodeError as error:
        raise BaselineError(
            f"{path}: {error}; restore the file from version control, or remove it: "
            "--update-baselines learns it again"
        ) from error


def prior_of_file(path: Path, world_size: int | None) -> Prior:
    """Return the noise of one world size in the file ``path``; None: of the only one there.

    Raises ``BaselineError`` for a file that is none, ``UsageError`` where it is not in it.
    """
    noise = read(path.parent.parent, path.parent.name) if path.name == NAME else None
    if noise is None:
        raise UsageError(
            f"{path}: no such file, or not named {NAME} as it is in a folder of baselines"
        )
    known = noise.world_sizes
    key = next(iter(known)) if world_size is None and len(known) == 1 else str(world_size)
    if key not in known:
        raise UsageError(
            f"{path}: it has world sizes {', '.join(known)}; name one of them with --world_size"
        )
    return known[key].prior


def write(root: Path, machine_class: str, learn: Callable[[], MachineNoise | None]) -> None:
    """Replace the file by what ``learn`` returns, one writer at a time; nothing is left as it is.

    Raises ``BaselineError`` if it cannot be written.
    """
    path = root / machine_class / NAME
    with locked(path):
        noise = learn()
        if noise is None:
            return
        values = {"format": FILE_FORMAT, **encode(noise)}
        text = file_format.json_text(values)
        content = f"{text}\n".encode()
        try:
            is_same = path.read_bytes() == content
        except OSError:
            is_same = False
        if not is_same:
            replace_file(path, content)


def _decoded(content: bytes, machine_class: str) -> MachineNoise:
    values = file_format.parse(content)
    found = values.pop("format", None) if isinstance(values, dict) else None
    if type(found) is not int or found != FILE_FORMAT:
        raise DecodeError(f"format: {found!r}, and this version reads {FILE_FORMAT}")
    noise: MachineNoise = decode(MachineNoise, values)
    if noise.machine_class != machine_class:
        raise DecodeError(
            f"machine_class: {noise.machine_class!r}, but the path of the file says "
            f"{machine_class!r}"
        )
    for world_size, known in noise.world_sizes.items():
        _check(known, f"world_sizes[{world_size}]")
    return noise


def _check(known: LearntNoise, where: str) -> None:
    for name in _ABOVE_ZERO:
        value = getattr(known, name)
        if value is not None and not (math.isfinite(value) and value > 0):
            raise DecodeError(f"{where}.{name}: {value} must be finite and above 0")
