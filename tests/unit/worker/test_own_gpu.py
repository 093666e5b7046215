"""Which of the GPUs that a rank sees is its own."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from pytest_dlperf.core.frameworks import FRAMEWORKS
from pytest_dlperf.worker import __main__ as worker
from pytest_dlperf.worker.frameworks.base import gpu_of, named_gpu


@pytest.mark.parametrize(
    ("local_rank", "visible", "variable", "expected"),
    [
        (0, 1, None, 0),
        (3, 8, None, 3),
        (1, 2, "4,5", 1),
        # Slurm and MPI may show each task its own GPU alone
        (3, 1, "3", 0),
        (1, 1, "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", 0),
        # A machine that has one, or a list of which one is left
        (1, 1, None, None),
        (1, 1, "", None),
        (1, 1, "0,9", None),
        (2, 2, "0", None),
        (0, 0, "0", None),
    ],
)
def test_the_gpu_of_a_rank(
    monkeypatch: pytest.MonkeyPatch,
    local_rank: int,
    visible: int,
    variable: str | None,
    expected: int | None,
):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if variable is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    assert gpu_of(local_rank, visible) == expected


@pytest.mark.parametrize(
    ("variable", "index", "expected"),
    [
        (
            "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6",
            0,
            "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6",
        ),
        ("GPU-1, MIG-2", 1, "MIG-2"),
        ("GPU-1", 1, None),
        ("0,1", 0, None),
        (None, 0, None),
    ],
)
def test_the_name_of_a_gpu_is_known_from_a_list_of_names(
    monkeypatch: pytest.MonkeyPatch, variable: str | None, index: int, expected: str | None
):
    """B12: TensorFlow itself names none."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if variable is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    assert named_gpu(index) == expected


def test_variables_that_libraries_read_when_they_are_loaded_are_set_before_the_import(
    monkeypatch: pytest.MonkeyPatch,
):
    """B8: of Paddle, in a case named fp32 alone."""
    seen: dict[str, str | None] = {}

    def import_module(name: str) -> object:
        seen[name] = os.environ.get("NVIDIA_TF32_OVERRIDE")
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(worker.importlib, "import_module", import_module)
    # So that it is restored: what is deleted while it is absent is not
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "")
    for framework in FRAMEWORKS:
        for precision in ("fp32", "tf32", "bf16"):
            monkeypatch.delenv("NVIDIA_TF32_OVERRIDE", raising=False)
            arguments = SimpleNamespace(framework=framework, precision=precision)
            with pytest.raises(ModuleNotFoundError):
                worker._join(arguments)  # type: ignore[arg-type]
            [value] = seen.values()
            assert value == ("0" if (framework, precision) == ("paddle", "fp32") else None)
            seen.clear()
