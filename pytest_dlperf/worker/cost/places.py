"""Where in the user's own program something happens: ``torch_train.py:12``."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import sysconfig
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import Final

_PACKAGE: Final = Path(__file__).resolve().parents[2]
#: Folders whose files are no user's program: this package, Python's own, what pip installed.
_LIBRARIES: Final = tuple(
    f"{Path(path).resolve()}/"
    for path in (
        str(_PACKAGE / "core"),
        str(_PACKAGE / "worker"),
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    )
)
_WORKER: Final = f"{_PACKAGE / 'worker'}/"
#: Files of PyTorch between an operator, or a context, and what sees it.
_DISPATCHING: Final = (
    "torch/_compile.py", "torch/_dynamo/eval_frame.py", "torch/_ops.py",
    "torch/amp/autocast_mode.py", "torch/cpu/amp/autocast_mode.py",
    "torch/utils/_python_dispatch.py",
)  # fmt: skip
#: Names of folders in which pip, and Debian's, install what they install.
_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})
#: The suites of the wheel are programs as a user's own, though pip installed them.
_SUITES: Final = f"{_PACKAGE / 'suites'}/"


def workload_file(workload: str) -> str | None:
    """Return the file of a workload's module, without importing it; None if there is none."""
    with contextlib.suppress(ImportError, ValueError):
        spec = importlib.util.find_spec(workload.partition(":")[0])
        return None if spec is None else spec.origin
    return None


class Places:
    """Names lines of a program, relative to the folder of its workload."""

    def __init__(self, workload_file: str | None = None) -> None:
        self._folder = None if workload_file is None else Path(workload_file).resolve().parent
        self._is_program: dict[str, bool] = {}

    def here(self) -> str:
        """Return the innermost line of the program that this is called from; empty if none is."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if self.is_program(frame.f_code.co_filename):
                return self.named(frame.f_code.co_filename, frame.f_lineno)
            frame = frame.f_back
        return ""

    def is_own_call(self) -> bool:
        """Return whether the program itself called what is seen, and no library did."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            file = frame.f_code.co_filename
            if self.is_program(file):
                return True
            if not (file.startswith(_WORKER) or file.endswith(_DISPATCHING)):
                return False
            frame = frame.f_back
        return False

    def error_place(self, error: BaseException) -> str:
        """Return the innermost line of the program that ``error`` passed; empty if none is."""
        lines = traceback.extract_tb(error.__traceback__)
        return next(iter(self._places(reversed(lines))), "")

    def _places(self, lines: Iterable[traceback.FrameSummary]) -> Iterable[str]:
        for line in lines:
            if self.is_program(line.filename):
                yield self.named(line.filename, line.lineno or 0)

    def is_program(self, file: str) -> bool:
        """Return whether ``file`` is of the user's program."""
        known = self._is_program.get(file)
        if known is None:
            path = str(Path(file).resolve())
            known = not file.startswith("<") and (
                path.startswith(_SUITES)
                or not (path.startswith(_LIBRARIES) or _INSTALLED.intersection(Path(path).parts))
            )
            self._is_program[file] = known
        return known

    def named(self, file: str, line: int) -> str:
        """Return ``file`` and ``line`` as a record has them."""
        path = Path(file).resolve()
        if self._folder is not None and path.is_relative_to(self._folder):
            return f"{path.relative_to(self._folder)}:{line}"
        return f"{path.parent.name}/{path.name}:{line}"
