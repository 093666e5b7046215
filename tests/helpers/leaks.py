"""Looks for a secret where a session may have left it: files, results, output, process lists."""

from __future__ import annotations

import contextlib
import stat
import threading
from collections.abc import Iterator
from pathlib import Path


def files_with(secret: str, *folders: Path) -> list[str]:
    """Return the files below ``folders`` that hold ``secret``, in their text or their name."""
    found = []
    for folder in folders:
        for path in folder.rglob("*"):
            if secret in path.name or (
                path.is_file() and not path.is_symlink() and secret.encode() in path.read_bytes()
            ):
                found.append(str(path))
    return sorted(found)


def open_to_others(folder: Path) -> list[str]:
    """Return what others may read below ``folder``: no folder above it keeps them out."""
    found: list[str] = []
    todo = [folder]
    while todo:
        path = todo.pop()
        mode = stat.S_IMODE(path.lstat().st_mode)
        if path.is_symlink() or not mode & 0o077:
            continue
        if path.is_dir():
            todo += path.iterdir()
        else:
            found.append(f"{path} {mode:o}")
    return sorted(found)


@contextlib.contextmanager
def process_lists(secret: str) -> Iterator[set[str]]:
    """Look at the process list all the time; yield the command lines that hold ``secret``."""
    found: set[str] = set()
    is_over = threading.Event()
    looks = [0]

    def look() -> None:
        while not is_over.wait(0.03):
            looks[0] += 1
            for process in Path("/proc").glob("[0-9]*"):
                with contextlib.suppress(OSError):
                    line = (process / "cmdline").read_bytes()
                    if secret.encode() in line:
                        found.add(line.replace(b"\0", b" ").decode(errors="replace"))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield found
    finally:
        is_over.set()
        thread.join()
    assert looks[0] > 5
