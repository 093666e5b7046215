"""Report of a node on itself: ``python -m pytest_dlperf.flow.target_report``, and how it is read.

The machine that runs pytest may differ from it: a login node has no GPU, and other packages. A job
of a scheduler writes its report to a file; a node that is asked over a channel prints it.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pytest_dlperf.cases.possible import Installed, installed_here
from pytest_dlperf.core.codec import DecodeError, decode, encode
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.launch.base import find_program
from pytest_dlperf.measure.devices import Devices, detect

#: The package whose versions must be equal here and there.
_OURS: Final = "pytest-dlperf"
#: Start of the line with a printed report.
_MARK: Final = "dlperf-node: "
#: Devices of a target that was not asked.
UNKNOWN_DEVICES: Final = Devices(
    gpus=(), visible_gpus=0, gpu_problem="", cores=1, visible_cores=1, cpu_name="unknown"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class TargetReport:
    """Devices, packages, files and programs of one node."""

    node: str
    devices: Devices
    installed: Installed
    #: Of this package there; empty where it is not installed but on the path.
    version: str
    #: Of the interpreter, in full.
    python: str = ""
    executable: str = ""
    #: Digests of the files that were asked for; None for one that is not there.
    files: Mapping[str, str | None] = field(default_factory=dict)
    #: Where the programs are that were asked for; None for one that is not there.
    programs: Mapping[str, str | None] = field(default_factory=dict)


def own_version() -> str:
    """Return the version of this package; empty where it is not installed but on the path."""
    try:
        return importlib.metadata.version(_OURS)
    except importlib.metadata.PackageNotFoundError:
        return ""


def read_report(path: Path) -> TargetReport:
    """Return the report that a job wrote; raise ``CaseError`` if it cannot be read.

    Also if it is of another version of this package, which may measure differently.
    """
    try:
        report = decode(TargetReport, json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, DecodeError) as error:
        raise CaseError(f"{path}: the report of the probe job cannot be read ({error})") from error
    if report.version and own_version() and report.version != own_version():
        raise CaseError(
            f"{_OURS} {report.version} is installed on {report.node}, and {own_version()} here; "
            "install the same version, or name that interpreter with --dlperf-python"
        )
    return report


def printed_report(output: str) -> TargetReport | None:
    """Return the report in what a node printed; None if there is none."""
    for line in output.splitlines():
        if line.startswith(_MARK):
            try:
                return decode(TargetReport, json.loads(line.removeprefix(_MARK)))
            except (ValueError, DecodeError):
                return None  # cut off
    return None


def main(argv: Sequence[str]) -> int:
    """Write the report of this node to the file given as an argument, or print it."""
    parser = argparse.ArgumentParser(prog="python -m pytest_dlperf.flow.target_report")
    parser.add_argument("results", nargs="?", type=Path)
    parser.add_argument("--file", action="append", default=[])
    parser.add_argument("--program", action="append", default=[])
    arguments = parser.parse_args(argv)
    report = TargetReport(
        node=platform.node(),
        devices=detect(),
        installed=installed_here(),
        version=own_version(),
        python=platform.python_version(),
        executable=sys.executable,
        files={name: _digest(Path(name)) for name in arguments.file},
        programs={name: find_program(sys.executable, name) for name in arguments.program},
    )
    text = json.dumps(encode(report))
    if arguments.results is None:
        sys.stdout.write(f"\n{_MARK}{text}\n")
        return 0
    partial = arguments.results.with_suffix(".part")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, arguments.results)
    return 0


def _digest(path: Path) -> str | None:
    try:
        return hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest()
    except OSError:
        return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
