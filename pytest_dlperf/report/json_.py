"""The results file of ``--dlperf-json``; its schema lies beside this module."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.outcome_json import results_from_json, results_to_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_dlperf.core.outcome import Outcome


def render(outcomes: Sequence[Outcome]) -> str:
    """Return the text of a results file."""
    return json.dumps(results_to_json(outcomes), indent=1, sort_keys=True, allow_nan=False) + "\n"


def write(path: Path, outcomes: Sequence[Outcome]) -> None:
    """Write a results file, whole or not at all; raises ``OSError``."""
    write_text(path, render(outcomes))


def write_text(path: Path, text: str) -> None:
    """Write a file in a folder that is made where it is missing, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def read(path: Path) -> tuple[Outcome, ...]:
    """Return the outcomes of a results file; raise ``UsageError`` if it cannot be read."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{path}: not JSON ({error})") from error
    return results_from_json(values, where=str(path))
