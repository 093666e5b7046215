"""A simulated GPU for the tests of the worker."""

from __future__ import annotations

import pytest

from pytest_dlperf.worker import host, loop, marks
from pytest_dlperf.worker.frameworks import on_cpu
from tests.helpers.simulated_gpu import SimulatedGpu


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> SimulatedGpu:
    """Return a GPU whose clock the worker reads."""
    gpu = SimulatedGpu()
    gpu.timed_by(monkeypatch, loop, marks, host, on_cpu)
    return gpu
