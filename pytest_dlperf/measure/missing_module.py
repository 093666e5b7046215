"""Says where a program looked for a module that it did not find."""

from __future__ import annotations

import os
import re
from typing import Final

from pytest_dlperf.core.run import LaunchPlan

#: ``python -m`` writes the name without quotation marks.
_MISSING: Final = re.compile(r"No module named '?([\w.]+)")


def missing_module(log: str, plan: LaunchPlan) -> str:
    """Return words for the module that ``log``, a program's last lines, says is missing.

    Empty where it says that of none.
    """
    found = _MISSING.search(log)
    if found is None:
        return ""
    folders = [folder for folder in plan.env.get("PYTHONPATH", "").split(os.pathsep) if folder]
    searched = f" and {', '.join(folders)}" if folders else ""
    return (
        f"no module named {found[1]!r} among the packages of its interpreter{searched}; install "
        "it, or name its folder in pytest's ini pythonpath or in PYTHONPATH"
    )
