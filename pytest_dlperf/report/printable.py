"""Make outside text safe to print: no character of it controls the terminal."""

from __future__ import annotations

import os
import re
import unicodedata
from typing import Final

#: Control characters but tab and line feed; what turns the direction of text or hides in it;
#: halves of characters, which no encoding can write.
_STEERS: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
#: How a CI's runner knows a command: GitHub's begin a line (``::error::``); ``##[error]``, Azure
#: Pipelines' ``##vso[...]`` and TeamCity's ``##teamcity[...]`` stand anywhere in it.
_COMMAND: Final = re.compile(r"^(\s*):(?=:)|##(?=\w{0,32}\[)", re.MULTILINE)
#: A job of GitHub Actions, of Azure Pipelines and of TeamCity has these variables.
_RUNNERS: Final = ("GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION")

#: Unicode's categories of marks that stand on the character before, and of joiners.
_WITHOUT_WIDTH: Final = frozenset({"Mn", "Me", "Cf"})


def printable(text: str) -> str:
    r"""Return ``text`` with what would steer a terminal as ``\x1b``, ``\u202e``; lines stay."""
    return _STEERS.sub(_escape, text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """Return the same in one line."""
    return printable(" ".join(text.split()))


def without_commands(text: str) -> str:
    """Return ``text`` with nothing that a CI's runner would take for a command.

    ``::error::`` becomes ``: :error::``, and ``##[error]`` becomes ``## [error]``.
    """
    return _COMMAND.sub(lambda match: "## " if match[0] == "##" else f"{match[0]} ", text)


def shown(text: str) -> str:
    """Return ``text`` as it may be printed: nothing steers a terminal, or the runner of a CI.

    Commands are made harmless in every job, also where nothing is reported.
    """
    text = printable(text)
    return without_commands(text) if any(map(os.environ.get, _RUNNERS)) else text


def columns(text: str) -> int:
    """Return the columns that a printable ``text`` takes: Chinese characters take two."""
    return sum(map(_columns_of, text))


def padded(text: str, width: int, *, right: bool = False) -> str:
    """Return ``text`` in at least ``width`` columns, at their left or at their right."""
    space = " " * (width - columns(text))
    return space + text if right else text + space


def shortened(text: str, width: int) -> str:
    """Return ``text`` in at most ``width`` columns; where some is left out, it ends with ``…``."""
    if columns(text) <= width:
        return text
    kept, taken = [], 0
    for character in text:
        taken += _columns_of(character)
        if taken > width - 1:
            break
        kept.append(character)
    return "".join(kept) + "…"


def clipped(id_: str, width: int) -> str:
    """Return an id in at most ``width`` columns: its ends tell cases apart, its middle goes."""
    if len(id_) <= width:
        return id_
    head = (width - 1) // 2
    return f"{id_[:head]}…{id_[len(id_) - (width - 1 - head) :]}"


def _columns_of(character: str) -> int:
    if unicodedata.category(character) in _WITHOUT_WIDTH:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
