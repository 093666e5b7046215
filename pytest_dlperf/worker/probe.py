"""``python -m pytest_dlperf.worker.probe``: reports the Python and framework of a rank's place.

Prints one marked line of JSON, among what a container's entry point prints. Needs the standard
library only, unless a framework is asked for. Runs on Python 3.7 as well, so that the pytest
side can report that it is too old for the worker.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pytest_dlperf.core.frameworks import FRAMEWORKS
from pytest_dlperf.core.wire import PROBE_MARK

if TYPE_CHECKING:
    from pytest_dlperf.core.wire_records import ProbeAnswer


#: Variables that name the image a process runs in, the most exact first.
_IMAGE_VARIABLES = ("DLPERF_IMAGE", "NVIDIA_PRODUCT_NAME")


def main(argv: Sequence[str] | None = None) -> None:
    """Print the answer."""
    parser = argparse.ArgumentParser(prog="python -m pytest_dlperf.worker.probe")
    parser.add_argument("--framework", choices=sorted(FRAMEWORKS))
    arguments = parser.parse_args(argv)
    answer = host_answer()
    if arguments.framework:
        answer.update(framework_answer(arguments.framework))
    # What a framework prints while it is imported ends before this line.
    sys.stderr.flush()
    sys.stdout.write(f"\n{PROBE_MARK}{json.dumps(answer)}\n")


def host_answer() -> ProbeAnswer:
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


def framework_answer(framework: str) -> ProbeAnswer:
    """Return the framework's version and what it sees; ``problem`` if it cannot be imported."""
    answer: ProbeAnswer = {"framework": framework, "framework_version": None, "problem": ""}
    try:
        importlib.import_module(framework)
        module = importlib.import_module(f"pytest_dlperf.worker.frameworks.{framework}")
        answer.update(module.probe())
    except ModuleNotFoundError as error:
        if error.name != framework:
            answer["problem"] = f"{type(error).__name__}: {error}"
    except Exception as error:  # noqa: BLE001 - any error of a broken installation is the answer
        answer["problem"] = f"{type(error).__name__}: {error}"
    return answer


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
