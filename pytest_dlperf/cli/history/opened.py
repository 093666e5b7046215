"""Open the history that a command reads."""

from __future__ import annotations

import argparse
import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_dlperf.cli.history.pytest_root import root_of
from pytest_dlperf.core.errors import UsageError

if TYPE_CHECKING:
    from pytest_dlperf.store.history.address import Address


#: Where pytest sessions leave it, if no other was named.
_DEFAULT: Final = Path(".dlperf/history.sqlite")


def address_in(arguments: argparse.Namespace) -> Address:
    """Return the history that was named, else the usual one; raise ``UsageError``."""
    if find_spec("sqlalchemy") is None:
        raise UsageError("sqlalchemy is not installed; pip install 'pytest-dlperf[history]'")
    from pytest_dlperf.store.history.address import parse_address

    here = Path.cwd()
    for text, what in (
        (arguments.history, "--history"),
        (os.environ.get("DLPERF_HISTORY"), "DLPERF_HISTORY"),
    ):
        if text == "off":
            raise UsageError(f"{what}=off names no history; give a file or a URL with --history")
        if text:
            return parse_address(text, folder=here, what=what)
    root = root_of(here, run_in=here)
    text = str(root.values.get("dlperf_history") or "")
    if text == "off":
        raise UsageError("dlperf_history is off in the ini file; name a history with --history")
    if text:
        return parse_address(text, folder=root.folder, what="ini dlperf_history")
    return parse_address(str(_DEFAULT), folder=here, what="--history")
