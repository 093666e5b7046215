"""The environment of an outcome: machine class (hardware only), node, software."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

#: Enough to distinguish a repository's commits, and short enough for a column.
_SHOWN: Final = 12


def short_commit(commit: str) -> str:
    """Return the beginning of a commit; empty for none."""
    return commit[:_SHOWN]


@dataclass(frozen=True, kw_only=True, slots=True)
class Environment:
    """The machine and the software of one outcome; what is not known is absent, not guessed."""

    #: Slug that keys baselines: ``8x-v100-sxm2-32gb``, ``2x-amd-epyc-9b45``; may be pinned.
    machine_class: str
    #: The slug that was detected, even if another one is pinned.
    hardware: str
    node: str
    #: Driver, CUDA, framework and its version, Python, image, commit ...
    software: Mapping[str, str]
    #: OS, CPU, memory, GPUs ...
    machine: Mapping[str, str]
