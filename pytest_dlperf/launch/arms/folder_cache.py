"""Folders that are dear to make: made once, whole or not at all, and kept for later sessions."""

from __future__ import annotations

import fcntl
import os
import shutil
from typing import TYPE_CHECKING, Final

from filelock import FileLock

from pytest_dlperf.core.errors import CaseError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: Folders of one kind that are kept, beside those that a living session uses.
_KEPT: Final = 3


class KeptFolders:
    """The folders in ``base``, each made by a name that tells what is in it.

    A folder counts as made when ``NAME.done`` lies beside it and holds the folder's seal: one
    that was interrupted, or changed since, is made anew. ``NAME.used`` is locked by every
    session that uses it, while that lives.
    """

    def __init__(
        self,
        base: Path,
        *,
        remove: Callable[[Path], None],
        seal: Callable[[Path], str] = lambda folder: "",
    ) -> None:
        self._base = base
        self._remove = remove
        self._seal = seal
        self._held: dict[str, int] = {}

    def made(self, name: str, make: Callable[[Path], None]) -> Path:
        """Return the folder ``name``, by ``make`` where it is missing; drop the oldest others.

        Whatever ``make`` raises leaves nothing. Raises ``CaseError`` if ``base`` cannot be
        written.
        """
        folder = self._base / name
        try:
            self._base.mkdir(mode=0o700, parents=True, exist_ok=True)
            with FileLock(self._base / "making.lock"):
                self._make(folder, make)
                self._hold(name)
                self._drop_oldest()
        except OSError as error:
            raise CaseError(f"cannot make {folder}: {error}") from error
        return folder

    def _make(self, folder: Path, make: Callable[[Path], None]) -> None:
        done = folder.with_name(f"{folder.name}.done")
        if done.exists() and folder.is_dir():
            if done.read_text(encoding="utf-8") == self._seal(folder):
                os.utime(done)
                return
            if not self._is_free(folder.name):
                raise CaseError(
                    f"{folder} was changed since it was made, and another session measures with "
                    "it; wait for its end, and leave the folder alone"
                )
        done.unlink(missing_ok=True)
        self._remove(folder)
        try:
            make(folder)
        except BaseException:
            self._remove(folder)
            raise
        done.write_text(self._seal(folder), encoding="utf-8")

    def _hold(self, name: str) -> None:
        if name not in self._held:
            self._held[name] = self._open(name)
            fcntl.flock(self._held[name], fcntl.LOCK_SH)

    def _drop_oldest(self) -> None:
        by_age = sorted(self._base.glob("*.done"), key=lambda path: path.stat().st_mtime)
        for done in by_age[:-_KEPT]:
            name = done.name.removesuffix(".done")
            if not self._is_free(name):
                continue
            done.unlink()
            self._remove(self._base / name)
            for left in self._base.glob(f"{name}.*"):
                shutil.rmtree(left) if left.is_dir() else left.unlink()

    def _is_free(self, name: str) -> bool:
        """Whether no living session uses the folder; none begins to while it is made."""
        descriptor = self._open(name)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        else:
            return True
        finally:
            os.close(descriptor)

    def _open(self, name: str) -> int:
        path = self._base / f"{name}.used"
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
