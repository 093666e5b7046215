"""Replace files among the baselines, one writer at a time, whoever and wherever it is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from pytest_dlperf.core import replaced_file
from pytest_dlperf.core.errors import BaselineError, CaseError
from pytest_dlperf.store import lock_beside


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of ``path``, which need not exist, against writers on any host.

    Raises ``BaselineError`` if it cannot be had within a minute, or the folder be written.
    """
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(lock_beside.locked(path))
        except TimeoutError as error:
            raise BaselineError(
                f"another process has held its lock {error.filename} for "
                f"{lock_beside.TIMEOUT_S:.0f} s",
                subject=str(path),
                remedy="end that process, on this host or another that has the folder, and try "
                "again",
            ) from error
        except CaseError as error:
            raise BaselineError(
                f"not locked, so not written: {error}", subject=str(path)
            ) from error
        except OSError as error:
            raise _not_writable(path.parent, error) from error
        yield


def replace_file(path: Path, content: bytes) -> None:
    """Replace ``path`` by ``content``, or leave it whole; call it under ``locked``.

    Raises ``BaselineError`` if the folder cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replaced_file.replace_file(path, content, synced=True)
    except OSError as error:
        raise _not_writable(path.parent, error) from error


def remove_file(path: Path) -> None:
    """Remove ``path`` if it is there; call it under ``locked``. Raises ``BaselineError``."""
    try:
        if path.parent.is_dir():
            replaced_file.remove_leftovers(path.parent)
            path.unlink(missing_ok=True)
            replaced_file.sync_folder(path.parent)
    except OSError as error:
        raise _not_writable(path.parent, error) from error


def _not_writable(folder: Path, error: OSError) -> BaselineError:
    return BaselineError(
        f"cannot write baselines there ({error.strerror or error})",
        subject=str(folder),
        remedy="make the folder writable, or name another one",
    )
