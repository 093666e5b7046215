"""Small files of the work folder that several sessions write: one value for each name."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_dlperf.core.errors import DlperfError


def read(path: Path) -> Mapping[str, Any]:
    """Return what was noted; nothing where there is no file, or one that cannot be read."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}


def note(path: Path, name: str, value: str | float) -> None:
    """Note ``value``; raise ``DlperfError`` if that cannot be written."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _alone(path.parent):
            values = {**read(path), name: value}
            temporary = path.with_name(f".{path.name}.tmp")
            text = json.dumps(values, indent=1, sort_keys=True)
            # Case ids and times are nobody else's, in a folder that may be open to all
            with open(temporary, "w", encoding="utf-8", opener=_private) as file:
                file.write(f"{text}\n")
            os.replace(temporary, path)
    except OSError as error:
        raise DlperfError(f"{path}: cannot be written ({error.strerror})") from error


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, mode=0o600)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the lock of the folder itself: no file is left behind."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
