"""The console script ``dlperf``, one module a command."""

from __future__ import annotations

from pytest_dlperf.cli.main import main

__all__ = ["main"]
