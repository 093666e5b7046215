"""Settings of a command line, without pytest: what is declared is parsed as pytest would."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_dlperf.session import options, usage
from pytest_dlperf.session.process import Process, Role
from pytest_dlperf.session.settings import Settings

#: What pytest has for an ini key of each type that no file sets.
_UNSET = {"args": [], "bool": False, None: ""}


class _Declared:
    """Takes what ``add_options`` declares to pytest."""

    def __init__(self) -> None:
        self.parser = argparse.ArgumentParser(allow_abbrev=False, exit_on_error=False)
        #: pytest's own are declared by itself.
        self.ini: dict[str, Any] = {"pythonpath": []}
        options.add_ini_keys(self)  # type: ignore[arg-type]
        options.add_options(self)  # type: ignore[arg-type]

    def getgroup(self, *_: str) -> _Declared:
        return self

    def addoption(self, *names: str, **keywords: Any) -> None:
        short = [f"--{name}" for name in ("gpus", "cpus", "update-baselines")]
        names += tuple(name for name in short if names == (f"--dlperf-{name[2:]}",))
        self.parser.add_argument(*names, **keywords)

    def addini(self, name: str, _: str, type_: str | None = None, *, default: Any = None) -> None:
        self.ini[name] = _UNSET[type_] if default is None else default


def settings_of(
    *arguments: str,
    folder: Path,
    ini: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    processes: int | None = None,
) -> Settings:
    """Return what a session makes of its arguments in ``folder``, its rootdir.

    ``processes`` are those of ``-n``. Raises ``UsageError`` as it would.
    """
    declared = _Declared()
    found = vars(declared.parser.parse_args(arguments))
    settings = Settings.from_options(
        lambda name: found[f"dlperf_{name.replace('-', '_')}"],
        {**declared.ini, **(ini or {})}.__getitem__,
        cwd=folder,
        root=folder,
        environ=environ or {},
    )
    process = Process(role=Role.CONTROLLER if processes else Role.SINGLE)
    usage.check_together(settings, process)
    usage.check_at_start(settings, process)
    return settings
