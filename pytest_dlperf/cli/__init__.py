"""``dlperf``: the same stages without pytest."""

from __future__ import annotations

from pytest_dlperf.cli.main import main

__all__ = ["main"]
