"""How options are named in a sentence: by pytest, or by a command that has some of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pytest_dlperf.core.option_names import OF_PYTEST, OptionNames


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """The options that a sentence may advise."""

    names: OptionNames = OF_PYTEST

    @property
    def _is_pytest(self) -> bool:
        return self.names.own is None

    def name(self, option: str, value: str = "") -> str:
        """Return how ``option`` is typed, as ``--dlperf-max-runs=20``; empty if it is lacking."""
        return self.names.typed(f"{option}={value}" if value else option)

    def advice(self, text: str, option: str, value: str = "") -> str:
        """Return ``text`` with the option in place of ``{}``; empty where it is lacking."""
        name = self.name(option, value)
        return text.format(name) if name else ""

    @property
    def accept(self) -> str:
        """What accepts a new level; empty for a command, which stores nothing."""
        return "--update-baselines --dlperf-reason=TEXT" if self._is_pytest else ""

    @property
    def update(self) -> str:
        """What stores a session; empty for a command."""
        return "--update-baselines" if self._is_pytest else ""

    @property
    def side_by_side(self) -> str:
        """What compares two versions; empty for a command."""
        return self.advice(
            "compare two versions on this machine as it is with {}", "against", "REF"
        )


#: The options of pytest.
PYTEST: Final = Options()


def either(*advice: str) -> str:
    """Return pieces of advice as alternatives, without the empty ones."""
    known = [text for text in advice if text]
    if len(known) < 2:
        return "".join(known)
    return f"{', '.join(known[:-1])}, or {known[-1]}"


def joined(*parts: str, by: str = "; ") -> str:
    """Return parts of a sentence joined, without the empty ones."""
    return by.join(part for part in parts if part)
