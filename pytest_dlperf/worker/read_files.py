"""Watches which files of the repository a rank opens for reading.

Settings that a program reads, and files that it executes, decide its speed as its modules do.
"""

from __future__ import annotations

import os
import sys
from typing import Final

#: Most files that are kept: a data set may have millions.
_MOST: Final = 5000
_opened: dict[str, None] = {}
_trees: list[str] = []


def watch(trees: list[str]) -> None:
    """Watch from now on what this process opens below ``trees``; once a process.

    What a library opens without Python is not seen.
    """
    if not _trees and trees:
        sys.addaudithook(_on_event)
    _trees[:] = [tree.rstrip(os.sep) + os.sep for tree in trees]


def read_files() -> tuple[list[str], bool]:
    """Return the files that were opened for reading, and whether there were more of them."""
    return sorted(_opened), len(_opened) >= _MOST


def _on_event(event: str, arguments: tuple[object, ...]) -> None:
    """Note an ``open``, whose arguments are the path, the mode of ``open`` and the flags."""
    if event != "open" or len(_opened) >= _MOST:
        return
    path, mode, flags = arguments
    if not isinstance(path, str) or path.endswith(".pyc"):
        return
    if (isinstance(mode, str) and not mode.startswith("r")) or (
        isinstance(flags, int) and flags & os.O_ACCMODE == os.O_WRONLY
    ):
        return
    try:
        full = os.path.abspath(path)
    except OSError:
        return  # the working folder is gone
    if full.startswith(tuple(_trees)):
        _opened[full] = None
