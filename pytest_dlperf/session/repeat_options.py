"""The plugin's options among pytest's arguments, for a command that runs a case again."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from typing import Final

from pytest_dlperf.core.place import masked
from pytest_dlperf.session.option_values import REPORTS

#: Options that say what becomes of a result, not how it is reached.
NOT_REPEATED: Final = frozenset(
    {
        f"--dlperf-{name}"
        for name in (*REPORTS, "history", "sink", "resume", "reason", "update-baselines")
    }
)


def own_options(
    arguments: Iterable[str | os.PathLike[str]],
    flags: Collection[str],
    *,
    without: Collection[str] = NOT_REPEATED,
    for_people: bool = False,
) -> list[str]:
    """Return the arguments that are ours, less those named in ``without``.

    ``flags`` are the names, without their beginning, of options that take no value. ``for_people``
    leaves the values of variables out that a prefix sets: summaries end up in the logs of CI.
    """
    found: list[str] = []
    words = iter(str(argument) for argument in arguments)
    for word in words:
        name, equals, _ = word.partition("=")
        if name not in {"--gpus", "--cpus"} and not name.startswith("--dlperf-"):
            continue
        takes_value = name.removeprefix("--dlperf-") not in flags
        option = [word] if equals or not takes_value else [word, next(words, "")]
        if for_people and name == "--dlperf-prefix":
            option = [f"{name}={masked('='.join(option).removeprefix(f'{name}='))}"]
        if name not in without:
            found += option
    return found
