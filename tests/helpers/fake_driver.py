"""NVIDIA's driver library without a driver, under the real nvidia-ml-py."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).parents[1] / "fakes" / "nvml" / "libnvidia_ml.c"


class FakeDriver:
    """A ``libnvidia-ml.so.1`` in a folder; what it says is in ``state``, also while it runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "nvml.txt"
        self._environment: dict[str, str] = {}

    def says(self, *gpus: str, driver: str = "driver 570.1") -> None:
        self.state.write_text("\n".join([driver, *gpus]) + "\n", encoding="utf-8")

    def lacks(self, *functions: str) -> None:
        """Compile it without ``functions``: the symbols are not there, as in an old driver."""
        command = ["cc", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", str(SOURCE)]
        command += [f"-D{name}=lacking_{name}" for name in functions]
        subprocess.run([*command, "-o", str(self.folder / "libnvidia-ml.so.1")], check=True)

    def ask(self, code: str, **environ: str) -> Any:
        """Run ``code`` in a process that finds this library; return ``found`` from JSON."""
        chosen = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
        here = {name: value for name, value in os.environ.items() if name not in chosen}
        script = f"import json\n{code}\nprint(json.dumps(found))"
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={
                **here,
                "LD_LIBRARY_PATH": str(self.folder),
                "FAKE_NVML_STATE": str(self.state),
                **environ,
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


def fake_driver(folder: Path) -> FakeDriver:
    """Return a compiled library with every function; skip where that cannot be."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler (cc) for the library without a driver")
    try:
        importlib.metadata.version("nvidia-ml-py")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("nvidia-ml-py is not installed")
    driver = FakeDriver(folder)
    driver.lacks()
    return driver


def gpu_lines(**values: Sequence[str] | str | int) -> str:
    """Return the lines of one GPU: an H100 at rest, with ``values`` in place of its own."""
    own: dict[str, Any] = {
        "uuid": "GPU-1", "name": "NVIDIA H100 80GB HBM3", "memory": 85520809984,
        "pci_device": "0x233010de", "capability": "9.0", "mig": 0, "ecc": 1, "persistence": 1,
        "power_limit": 700000, "power_default": 700000, "set_clock": 1980, "default_clock": 1980,
        "nvlinks": 18, "ancestor": 50, "used": 0, "clock": 1900, "max_clock": 1980, "reasons": 0,
        "temperature": 60,
    }  # fmt: skip
    lines = ["gpu"]
    for name, value in (own | values).items():
        each = [value] if isinstance(value, str | int) else value
        lines += [f"{name} {one}" for one in each]
    return "\n".join(lines)
