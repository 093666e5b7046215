"""Which of this session's environment the ranks on other hosts get: what is allowed by name."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_dlperf.launch.base import Target

#: The file of ``--dlperf-env``'s values in a run's folder.
ENVIRONMENT_FILE: Final = "environment.json"
#: Begin the names of variables that set how libraries train and talk, and keep no secret. They
#: travel by themselves, so that a run on several hosts is set as one on this host.
_TUNING: Final = (
    "FI_", "FLAGS_", "GLOO_", "KMP_", "MKL_", "NCCL_", "PYTORCH_", "TF_", "TORCH_", "TP_", "UCX_",
    "XLA_",
)  # fmt: skip
#: Set by launchers, for a job of their own.
_LAUNCHERS_OWN: Final = frozenset({"TF_CONFIG"})


def tuning() -> dict[str, str]:
    """Return the variables that travel by themselves."""
    return {
        name: text
        for name, text in os.environ.items()
        if name.startswith(_TUNING)
        and name not in _LAUNCHERS_OWN
        and not name.startswith("TORCHELASTIC")
    }


def environment_files(target: Target) -> dict[str, str]:
    """Return the file of the values that the user lets travel; none if there are none."""
    return {ENVIRONMENT_FILE: json.dumps(dict(target.travelling))} if target.travelling else {}


def with_travelling(target: Target, workdir: Path, argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command of a rank that reads those values from the file."""
    if not target.travelling or not target.hosts:
        return argv
    program = target.package_folder / "pytest_dlperf" / "launch" / "with_environment.py"
    return (target.python, "-I", str(program), str(workdir / ENVIRONMENT_FILE), *argv)
