"""Takes what ranks printed out of a log folder that must not outlive the run.

``paddle.distributed.launch`` has such a folder: ``workerlog.N`` of every rank beside files that
hold the whole environment, passwords and all. Standard library only.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from pathlib import Path


def absorb(folder: Path, log: Path) -> None:
    """Append every ``workerlog.*`` of ``folder`` to ``log``, and remove the folder.

    The rank that fell silent first comes last, where one looks: the others only saw it go.
    """
    ranks = [path for path in folder.glob("workerlog.*") if path.is_file()]
    with log.open("ab") as target:
        for path in sorted(ranks, key=lambda path: -path.stat().st_mtime):
            target.write(f"\n--- {path.name}\n".encode())
            _append(path, target)
    shutil.rmtree(folder, ignore_errors=True)


def _append(path: Path, target: BinaryIO) -> None:
    with path.open("rb") as source:
        shutil.copyfileobj(source, target)
