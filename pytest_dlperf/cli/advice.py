"""Sentences that were written for pytest's options, in the words of a command."""

from __future__ import annotations

import argparse
import re
from typing import Final

from pytest_dlperf.core.option_names import OF_PYTEST, command_options

#: Options of pytest-dlperf, one or several in a row, each with a value or without. Those of its
#: report files name a kind of file, which a command reads.
_OPTIONS: Final = re.compile(
    r"(?<![\w-])(?:--(?:dlperf-(?!json|html)[a-z-]+[a-z]|update-baselines)"
    r"(?:=[^\s,;)]+)?(?: (?=--))?)+"
)


def in_words_of(arguments: argparse.Namespace, text: str) -> str:
    """Return ``text`` with the command's own options where it has those that are named.

    Else it says that they are pytest's: ``--dlperf-workdir`` becomes ``--workdir``, and
    ``--update-baselines`` becomes ``pytest --update-baselines``.
    """
    options = command_options(arguments.own_options)

    def replaced(match: re.Match[str]) -> str:
        names = [
            word.removeprefix(OF_PYTEST.prefix).removeprefix("--") for word in match[0].split()
        ]
        words = [options.typed(name) for name in names]
        if all(words):
            return " ".join(words)
        before = text[: match.start()].rstrip()
        return match[0] if before.endswith("pytest") else f"pytest {match[0]}"

    return _OPTIONS.sub(replaced, text)
