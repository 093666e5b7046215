"""The folder of a session: logs and records of its runs."""

from __future__ import annotations

import datetime
import os
from typing import TYPE_CHECKING, Any

import pytest

from pytest_dlperf.store.history.session_folder import make_session_folder

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_dlperf.session.settings import Settings


def folder_of(config: pytest.Config, settings: Settings) -> tuple[Path, Any]:
    """Return the folder, the same in all xdist workers of a session, and what keeps it.

    Making it drops the oldest. Raises ``pytest.UsageError`` if it cannot be made.
    """
    worker = getattr(config, "workerinput", None)
    base = settings.workdir
    if settings.runs_nothing:
        return base / "session", None
    try:
        name = (
            str(worker["testrunuid"])
            if worker
            else f"{datetime.datetime.now():%Y%m%d-%H%M%S}-{os.getpid()}"
        )
        return make_session_folder(base, name)
    except OSError as error:
        raise pytest.UsageError(
            f"pytest-dlperf: cannot write logs to {base}: {error.strerror}; name another folder "
            "with --dlperf-workdir"
        ) from error
