"""Which of the GPUs that a rank sees is its own."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.torch

pytest.importorskip("torch")


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
    from pytest_dlperf.worker.frameworks.torch.framework import gpu_of

    assert gpu_of(local_rank, visible) == expected
