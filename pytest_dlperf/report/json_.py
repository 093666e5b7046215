"""Write and read the results file of ``--dlperf-json``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.outcome import Outcome, results_from_json, results_to_json
from pytest_dlperf.core.replaced_file import replace_file


def render(outcomes: Sequence[Outcome]) -> str:
    """Return the text of a results file."""
    return json.dumps(results_to_json(outcomes), indent=1, sort_keys=True, allow_nan=False) + "\n"


def write(path: Path, outcomes: Sequence[Outcome]) -> None:
    """Write a results file, whole or not at all; raises ``OSError``."""
    write_text(path, render(outcomes))


def write_text(path: Path, text: str) -> None:
    """Write a file in a folder that is made where it is missing, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # What is not an outcome's may have halves of characters: escapes, in JSON and elsewhere
    replace_file(path, text.encode(errors="backslashreplace"))


def read(path: Path) -> tuple[Outcome, ...]:
    """Return the outcomes of a results file; raise ``UsageError`` if it cannot be read."""
    return results_from_json(load(path), where=str(path))


def load(path: Path) -> Any:
    """Return what a file of JSON holds; raise ``UsageError`` if it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
        if not text.strip():
            raise UsageError(f"{path}: not JSON (the file is empty)")
        return json.loads(text)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except RecursionError as error:
        raise UsageError(f"{path}: it is nested too deep to be read") from error
    except ValueError as error:
        raise UsageError(f"{path}: not JSON ({error})") from error


def read_shards(paths: Sequence[Path]) -> tuple[Outcome, ...]:
    """Return the outcomes of results files that are one session, in their order.

    A file that is named twice counts once. Raises ``UsageError`` for a file that cannot be read,
    and for a case that two of them hold: one session runs each case once.
    """
    where: dict[str, Path] = {}
    outcomes: list[Outcome] = []
    for path in {path.resolve(): path for path in paths}.values():
        for outcome in read(path):
            before = where.setdefault(outcome.case.id, path)
            if before is not path:
                raise UsageError(
                    f"{outcome.case.id} is in {before} and in {path}: results files of one "
                    "session hold each case once; leave one of the two out"
                )
            outcomes.append(outcome)
    return tuple(outcomes)
