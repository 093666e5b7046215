"""A program that marks its steps, inside a case."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

from pytest_dlperf.core.wire import MarkSettings

PLACE = ("RANK", "LOCAL_RANK", "WORLD_SIZE")


def settings(folder: Path, iterations: int = 12, warmup: int = 2) -> MarkSettings:
    return MarkSettings(
        records=str(folder),
        iterations=iterations,
        warmup=warmup,
        work=4,
        world_size=1,
        place=PLACE,
        framework="torch",
    )


def program(folder: Path, *texts: str, **env: str) -> None:
    """Run a program inside a case whose records go to ``folder``."""
    variables = {**os.environ, "DLPERF_MARK": settings(folder).to_json(), **env}
    head = "from pytest_dlperf.mark import step\nimport os\n"
    text = head + "".join(map(textwrap.dedent, texts))
    subprocess.run([sys.executable, "-c", text], env=variables, check=True)
