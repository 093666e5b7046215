"""How a user types the options that a message names: pytest's, or those of a command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class OptionNames:
    """The options of whoever reads a message."""

    prefix: str
    #: Those that a command has, as they are typed; None under pytest, which has all.
    own: frozenset[str] | None = None

    def typed(self, option: str) -> str:
        """Return ``option``, such as ``busy-gpus=ignore``, as it is typed.

        Empty where the command has none of this name, so that nothing is to be advised.
        """
        words = f"{self.prefix}{option}"
        return words if self.own is None or words.partition("=")[0] in self.own else ""


OF_PYTEST: Final = OptionNames("--dlperf-")


def command_options(own: frozenset[str]) -> OptionNames:
    """Return the options of a command of ``dlperf``; ``own`` are typed as ``--workdir``."""
    return OptionNames("--", own)
