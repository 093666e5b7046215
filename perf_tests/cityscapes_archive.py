"""The archive of Cityscapes, where it lies unpacked; standard library only."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from pytest_dlperf.worker.failure import WorkerFailure

if TYPE_CHECKING:
    from pathlib import Path

#: File and MD5 sum of the DeepLabV3+ report, which gives none of the archives of Cityscapes.
MD5 = {"cityscapes.tar": "37724b19b6e5d41f9f147936d60b3c29"}
ARCHIVES = (*MD5, "leftImg8bit_trainvaltest.zip", "gtFine_trainvaltest.zip")


def md5_of(path: Path) -> str:
    """Return the MD5 sum of a file, in hexadecimal digits."""
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()


def check_md5(path: Path, expected: str) -> None:
    """Raise ``WorkerFailure`` if the MD5 sum of ``path`` is another."""
    found = md5_of(path)
    if found != expected:
        raise WorkerFailure(
            "data-md5",
            f"{path} has the MD5 sum {found}, the report's archive has {expected}; download it "
            "again",
        )


def refuse_packed(folder: Path) -> None:
    """Raise ``WorkerFailure`` if ``folder`` has an archive: broken, or to be unpacked."""
    for name in ARCHIVES:
        path = folder / name
        if not path.is_file():
            continue
        checked = ""
        if name in MD5:
            check_md5(path, MD5[name])
            checked = " and has the report's MD5 sum"
        raise WorkerFailure(
            "data-packed", f"{path} is not unpacked{checked}; unpack it there, and run again"
        )
