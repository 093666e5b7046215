"""``python -m pytest_dlperf.worker.probe``: what lies where ranks would start.

Prints one marked line of JSON, whatever else a container's entry point prints. Standard
library only, unless a framework is asked for. Runs on Pythons that are too old for the worker,
so that it can say so.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import sys
from typing import TYPE_CHECKING, Any

from pytest_dlperf.worker import probe_frameworks

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Begins the line; ``launch/probe.py`` looks for it.
MARK = "dlperf-probe: "
#: Variables that name the image a process runs in, the most exact first.
_IMAGE_VARIABLES = ("DLPERF_IMAGE", "NVIDIA_PRODUCT_NAME")


def main(argv: Sequence[str] | None = None) -> None:
    """Print what is here."""
    parser = argparse.ArgumentParser(prog="python -m pytest_dlperf.worker.probe")
    parser.add_argument("--framework", choices=sorted(probe_frameworks.FRAMEWORKS))
    arguments = parser.parse_args(argv)
    facts = host_facts()
    if arguments.framework:
        facts.update(framework_facts(arguments.framework))
    # Whatever a framework still prints while it is imported ends before this line.
    sys.stderr.flush()
    sys.stdout.write(f"\n{MARK}{json.dumps(facts)}\n")


def host_facts() -> dict[str, Any]:
    """Return what is known without a framework; what is unknown is None."""
    images = (os.environ.get(name) for name in _IMAGE_VARIABLES)
    return {
        "python": platform.python_version(),
        "executable": sys.executable,
        "os": _os_name(),
        "image": next((image for image in images if image), None),
        "node": platform.node(),
        "cores": _usable_cores(),
    }


def framework_facts(framework: str) -> dict[str, Any]:
    """Return the framework's version and what it sees; ``problem`` if it cannot be imported."""
    module = probe_frameworks.FRAMEWORKS[framework].module
    facts: dict[str, Any] = {"framework": framework, "framework_version": None, "problem": ""}
    try:
        importlib.import_module(module)
        facts.update(probe_frameworks.FRAMEWORKS[framework].facts())
    except ModuleNotFoundError as error:
        if error.name != module:
            facts["problem"] = f"{type(error).__name__}: {error}"
    except Exception as error:  # noqa: BLE001 - whatever a broken installation raises is the answer
        facts["problem"] = f"{type(error).__name__}: {error}"
    return facts


def _usable_cores() -> int | None:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def _os_name() -> str:
    try:
        with open("/etc/os-release", encoding="utf-8") as file:
            for line in file:
                if line.startswith("PRETTY_NAME="):
                    return line.partition("=")[2].strip().strip("\"'")
    except OSError:
        pass  # not Linux, or an image without it
    return f"{platform.system()} {platform.release()}"


if __name__ == "__main__":
    main()
