"""Settings that conflict with pytest-xdist, or with existing files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.session import to_history
from pytest_dlperf.session.process import Process, Role
from pytest_dlperf.session.settings import Settings
from pytest_dlperf.session.sinks import names


def check_together(settings: Settings, process: Process) -> None:
    """Raise ``UsageError`` for settings that go neither together nor with ``-n``."""
    has_workers = process.role is Role.CONTROLLER
    to_history.check_usage(settings)
    if settings.strict and settings.observe:
        raise UsageError(
            "--dlperf-strict fails cases that were not judged, and --dlperf-mode=observe fails "
            "nothing but errors; leave one of them out (addopts of the ini file count as well)"
        )
    if settings.place.node_part is not None and has_workers:
        raise UsageError(
            "--dlperf-node-rank runs the cases of all nodes in one order, and the processes of "
            "pytest-xdist have none; leave -n out"
        )
    if settings.scheduling is not None and has_workers:
        raise UsageError(
            "--dlperf-scheduler runs --dlperf-jobs at once by itself; leave -n of pytest-xdist out"
        )


def check_at_start(settings: Settings, process: Process) -> None:
    """Raise ``UsageError`` for settings that cannot do what they are for."""
    if settings.runs_nothing and process.role is Role.CONTROLLER:
        raise UsageError(
            "--dlperf-list and --dlperf-dry-run show what this process collects; leave -n out"
        )
    if settings.baselines.exists() and not settings.baselines.is_dir():
        raise UsageError(f"--dlperf-baselines={settings.baselines} is not a directory")
    _check_reports(settings.reports)
    if settings.sinks:
        names.check(settings.sinks)


def _check_reports(reports: Mapping[str, Path]) -> None:
    """Raise ``UsageError`` for a path that can be no file, or is that of two reports."""
    for name, path in reports.items():
        same = [f"--dlperf-{other}" for other in reports if reports[other] == path]
        if len(same) > 1:
            raise UsageError(f"{' and '.join(same)} name one file, {path}; give each its own")
        if path.is_dir() or any(parent.is_file() for parent in path.parents):
            raise UsageError(f"--dlperf-{name}={path} cannot be written; name a file in a folder")
