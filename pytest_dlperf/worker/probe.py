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
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_dlperf.core.wire import PROBE_MARK

if TYPE_CHECKING:
    from pytest_dlperf.core.wire_records import ProbeAnswer


def nccl_version(code: int) -> str | None:
    """Return ``2.18.5`` for 21805, and ``2.8.4`` for 2804, as nccl.h has it; None for 0."""
    if code <= 0:
        return None
    major, rest = divmod(code, 10000 if code >= 10000 else 1000)
    return f"{major}.{rest // 100}.{rest % 100}"


def nccl_of_paddle(version: Any) -> str | None:
    """Return the version in ``paddle.version``; None before Paddle 3, which has no ``nccl``."""
    read = getattr(version, "nccl", None)
    code = str(read()) if read is not None else ""
    return nccl_version(int(code)) if code.isdecimal() else None


def horovod_operations(hvd: Any) -> dict[str, bool]:
    """Return what this Horovod was built with, by name; ``hvd`` is its module for a framework."""
    return {
        "nccl": bool(hvd.nccl_built()),
        "mpi": bool(hvd.mpi_built()),
        "gloo": bool(hvd.gloo_built()),
        "cuda": bool(hvd.cuda_built()),
        "rocm": bool(hvd.rocm_built()),
    }


class Probed(NamedTuple):
    """How to ask a framework: its module, and the function that asks."""

    module: str
    ask: Callable[[], ProbeAnswer]


def _torch() -> ProbeAnswer:
    import torch

    nccl = None
    if torch.cuda.is_available() and torch.distributed.is_nccl_available():
        nccl = ".".join(map(str, torch.cuda.nccl.version()))
    return {
        "framework_version": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "nccl": nccl,
        "gpus": torch.cuda.device_count(),
    }


def _paddle() -> ProbeAnswer:
    import paddle

    with_cuda = paddle.device.is_compiled_with_cuda()
    return {
        "framework_version": paddle.__version__,
        # The CPU build answers "False" where others answer a version.
        "cuda": paddle.version.cuda() if with_cuda else None,
        "cudnn": paddle.version.cudnn() if with_cuda else None,
        "nccl": nccl_of_paddle(paddle.version) if with_cuda else None,
        "gpus": paddle.device.cuda.device_count() if with_cuda else 0,
    }


def _tensorflow() -> ProbeAnswer:
    import tensorflow

    build = tensorflow.sysconfig.get_build_info()
    return {
        "framework_version": tensorflow.__version__,
        "cuda": build.get("cuda_version"),
        "cudnn": build.get("cudnn_version"),
        "nccl": _nccl_of_horovod(),
        # Without __version__ it is Keras 2, within TensorFlow.
        "keras": getattr(tensorflow.keras, "__version__", "2"),
        "gpus": len(tensorflow.config.list_physical_devices("GPU")),
    }


def _nccl_of_horovod() -> str | None:
    # TensorFlow does not report its own.
    try:
        import horovod.tensorflow as hvd
    except Exception:  # noqa: BLE001 - a rank that needs it reports what is wrong with it
        return None
    return nccl_version(hvd.nccl_built())


#: Frameworks by their name in ``Case.framework``.
FRAMEWORKS: Mapping[str, Probed] = {
    "torch": Probed("torch", _torch),
    "paddle": Probed("paddle", _paddle),
    "tensorflow": Probed("tensorflow", _tensorflow),
}


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
    module = FRAMEWORKS[framework].module
    answer: ProbeAnswer = {"framework": framework, "framework_version": None, "problem": ""}
    try:
        importlib.import_module(module)
        answer.update(FRAMEWORKS[framework].ask())
    except ModuleNotFoundError as error:
        if error.name != module:
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
