"""Each module of the package is one that this Python can import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest_dlperf

#: What a module may ask for that is not installed here.
EXTRAS = (
    "horovod", "jax", "lightning", "mlflow", "opentelemetry", "paddle", "sqlalchemy", "tensorflow",
    "torch", "transformers", "wandb",
)  # fmt: skip
CODE = """
import importlib
import sys

for name in sys.argv[2:]:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        assert (error.name or "").partition(".")[0] in sys.argv[1].split(), (name, error)
"""


def test_each_module_is_imported_by_this_python() -> None:
    folder = Path(pytest_dlperf.__file__).parent
    paths = [path.relative_to(folder.parent).with_suffix("") for path in folder.rglob("*.py")]
    names = [".".join(path.parts) for path in paths if path.name not in {"__init__", "__main__"}]
    assert len(names) > 300
    done = subprocess.run(
        [sys.executable, "-c", CODE, " ".join(EXTRAS), *sorted(names)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
