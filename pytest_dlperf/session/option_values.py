"""What the text of an option may be, and the error that names it where it is not."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.hosts import Host, parse_hostfile, parse_hosts
from pytest_dlperf.core.quantity import parse_share

#: What can be wished where others use the GPUs of a case.
BUSY_GPUS: Final = ("wait", "refuse", "ignore")
#: Options that name a file which is made of the outcomes.
REPORTS: Final = ("json", "html", "md", "benchmark-json", "metrics")


def report_files(get: Callable[[str], Any], folder: Path) -> dict[str, Path]:
    """Return the files to make of the outcomes, by the option that names each."""
    return {name: folder / get(name) for name in REPORTS if get(name)}


def seconds(text: str, what: str) -> float:
    """Return a number of seconds above 0; raise ``UsageError``."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 0 < value < float("inf"):
        raise UsageError(f"{what}={text}: give a number of seconds above 0")
    return value


def whole(text: str, what: str, least: int = 1) -> int:
    """Return a whole number that is not below ``least``; raise ``UsageError``."""
    if not text.strip().isdecimal() or int(text) < least:
        raise UsageError(f"{what}={text}: give a whole number, {least} or more")
    return int(text)


def counts(text: str | None, what: str) -> tuple[int, ...] | None:
    """Return the whole numbers of a list, each once; None without a list; raise ``UsageError``."""
    if text is None:
        return None
    return tuple(dict.fromkeys(whole(part, what) for part in text.split(",")))


def one_of(text: str | None, known: tuple[str, ...], what: str) -> str | None:
    """Return ``text``, which is one of ``known`` or None; raise ``UsageError``."""
    if text is not None and text not in known:
        raise UsageError(f"{what}={text}: known are {', '.join(known)}")
    return text


def names(text: str | None, known: tuple[str, ...], what: str) -> tuple[str, ...] | None:
    """Return the names of a list, all of ``known``; None without a list; raise ``UsageError``."""
    if text is None:
        return None
    found = tuple(name.strip() for name in text.split(","))
    for name in found:
        one_of(name, known, what)
    return found


def names_of_variables(text: str | None) -> tuple[str, ...]:
    """Return the names of environment variables in a list; raise ``UsageError``."""
    found = tuple(name.strip() for name in (text or "").split(",") if name.strip())
    for name in found:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise UsageError(
                f"--dlperf-env={text}: {name!r} is no variable's name; give names alone, their "
                "values are taken from this environment"
            )
    return found


def named_hosts(text: str, here: Path) -> tuple[Host, ...]:
    """Return the hosts of a list, or of the hostfile of that name; raise ``UsageError``."""
    file = here / text
    return (
        parse_hostfile(file.read_text(encoding="utf-8")) if file.is_file() else parse_hosts(text)
    )


def inject(text: str) -> tuple[str, float]:
    """Return a pattern of case ids and the share to slow them by; raise ``UsageError``."""
    glob, _, share = text.rpartition(":")
    return glob or "*", parse_share(share, what="--dlperf-inject")
