"""The profile beside a baseline, ``<case id>.profile.json``, by which a regression is explained.

It has the parts and the operators of one rank, a few kilobytes; no verdict depends on it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pytest_dlperf.core.errors import BaselineError
from pytest_dlperf.core.wire_profile import ProfileRecord
from pytest_dlperf.store.baseline.key import PROFILE_END, Key
from pytest_dlperf.store.baseline.replace_file import locked, remove_file, replace_file

#: Version of the file and of the rules that made its parts: those of other rules must not be
#: compared. 1: the first; 2: waits of the host and for collectives are bounded otherwise.
FORMAT: Final = 2


def to_bytes(profiles: Sequence[ProfileRecord]) -> bytes:
    """Return the contents of a file of ``profiles``, those of one rank in equal launches."""
    values = {"format": FORMAT, "profiles": list(profiles)}
    return (json.dumps(values, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()


def read(root: Path, key: Key) -> list[ProfileRecord]:
    """Return the profiles that are stored of a case; none if there is no file.

    Raises ``BaselineError`` for a file that cannot be read.
    """
    path = _path(root, key)
    try:
        return _profiles(json.loads(path.read_bytes(), parse_constant=_refuse))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise BaselineError(f"cannot be read ({error.strerror})", subject=str(path)) from error
    except (ValueError, KeyError, TypeError) as error:
        raise BaselineError(
            f"not a profile ({error})",
            subject=str(path),
            remedy="remove it, and store another with --update-baselines --dlperf-explain=always",
        ) from error


def write(root: Path, key: Key, content: bytes) -> None:
    """Store ``content``, which ``to_bytes`` made; raise ``BaselineError`` if it cannot be."""
    path = _path(root, key)
    with locked(path):
        replace_file(path, content)


def remove(root: Path, key: Key) -> None:
    """Remove the profile of a case, if there is one: it is of a level that no longer counts."""
    path = _path(root, key)
    if path.exists():
        with locked(path):
            remove_file(path)


def _path(root: Path, key: Key) -> Path:
    return root / key.machine_class / key.suite / f"{key.case_id}{PROFILE_END}"


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is not a number")


def _profiles(values: Any) -> list[ProfileRecord]:
    if values["format"] != FORMAT:
        raise ValueError(
            f"format {values['format']!r}, and this version compares those of {FORMAT} alone"
        )
    profiles: list[ProfileRecord] = values["profiles"]
    for record in profiles:
        for window in record["windows"]:
            if not window["steps"] or not all(
                isinstance(seconds, int | float) for seconds in window["parts"].values()
            ):
                raise ValueError("windows: steps and parts must be numbers")
        for row in record["operators"]:
            if not isinstance(row["seconds"] + row["calls"], int | float):
                raise ValueError("operators: calls and seconds must be numbers")
    return profiles
