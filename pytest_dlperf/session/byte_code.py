"""Has Python load our modules from the byte code that their installation compiled.

pytest rewrites assertions in each package that brings a plugin, and keeps byte code of its own for
that beside the modules. Where nothing may be written there (``PYTHONDONTWRITEBYTECODE``, a
read-only folder), it compiles each of our modules in each session again. Our assertions are no
tests: they need no rewriting. The suites are tests, and stay with pytest.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_PACKAGE: Final = f"{__name__.partition('.')[0]}."
_SUITES: Final = f"{_PACKAGE}suites"


class _InstalledModules(MetaPathFinder):
    """Finds our modules before pytest's hook does."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.startswith(_PACKAGE) and not name.startswith(_SUITES):
            return PathFinder.find_spec(name, path, target)
        return None


def load_as_installed() -> None:
    """Have what is imported of this package from now on loaded as it is installed."""
    if not any(isinstance(finder, _InstalledModules) for finder in sys.meta_path):
        sys.meta_path.insert(0, _InstalledModules())
