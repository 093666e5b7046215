"""The key of a baseline: machine class, suite and case id, and the file they name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pytest_dlperf.core.baseline import Baseline
from pytest_dlperf.core.errors import BaselineError

MEASURED: Final = "measured"
PUBLISHED: Final = "published"
#: Dots in front hide files and lead out of the folder, so no name begins with one.
_NAME = re.compile(r"\w[\w.+-]*")
_PUBLISHED_END: Final = f".{PUBLISHED}.json"
_MEASURED_END: Final = ".json"
#: Ends the name of the profile beside a baseline.
PROFILE_END: Final = ".profile.json"
#: Ends the name of a stored cost, which is no baseline of a machine.
COST_END: Final = ".cost.json"


def is_name(text: str) -> bool:
    """Return whether ``text`` can be a machine class, a suite or a case id."""
    return _NAME.fullmatch(text) is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class Key:
    """The place of one baseline. Raises ``BaselineError`` for names that can be no file's."""

    machine_class: str
    suite: str
    case_id: str
    kind: str = MEASURED

    def __post_init__(self) -> None:
        for what, name in (
            ("machine class", self.machine_class),
            ("suite", self.suite),
            ("case id", self.case_id),
        ):
            if not is_name(name):
                raise BaselineError(
                    f"{what} {name!r} cannot name a baseline; use letters, digits and . + _ - "
                    "only, with none of . + - in front"
                )

    @classmethod
    def of(cls, baseline: Baseline) -> Key:
        """Return the key of ``baseline``."""
        kind = PUBLISHED if baseline.source.kind == PUBLISHED else MEASURED
        return cls(
            machine_class=baseline.machine_class,
            suite=baseline.suite,
            case_id=baseline.case_id,
            kind=kind,
        )

    @classmethod
    def of_path(cls, path: Path) -> Key:
        """Return the key that the last three parts of ``path`` say.

        Raises ``BaselineError`` if they can be no names.
        """
        kind, end = MEASURED, _MEASURED_END
        if path.name.endswith(_PUBLISHED_END):
            kind, end = PUBLISHED, _PUBLISHED_END
        try:
            return cls(
                machine_class=path.parent.parent.name,
                suite=path.parent.name,
                case_id=path.name.removesuffix(end),
                kind=kind,
            )
        except BaselineError as error:
            raise BaselineError(str(error), subject=str(path)) from error

    def path(self, root: Path) -> Path:
        """Return the file below ``root``."""
        end = _PUBLISHED_END if self.kind == PUBLISHED else _MEASURED_END
        return root / self.machine_class / self.suite / f"{self.case_id}{end}"
