"""The step that ``job.step_of`` makes, without a framework."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from pytest_dlperf.worker.job import AutogradJob


class FakeJob(AutogradJob):
    """Notes in what order a step calls its parts."""

    def __init__(self) -> None:
        super().__init__(
            rank=0, local_rank=0, world_size=1, device="d", precision="bf16",
            batch_size_per_device=2, size="tiny", seed=0,
        )  # fmt: skip
        self.calls: list[Any] = []

    @contextlib.contextmanager
    def autocast(self) -> Iterator[None]:
        self.calls.append("autocast begins")
        yield
        self.calls.append("autocast ends")

    def backward(self, loss: Any, optimizer: Any, **_: Any) -> None:
        self.calls.append(("backward", loss, optimizer))

    def _on_device(self, tensor: Any) -> Any:
        self.calls.append(("moved", tensor))
        return f"{tensor} on d"

    def generator(self): ...

    def data_parallel(self, module, **options): ...

    def replicated(self, parameters): ...

    def _clear(self, optimizer): ...

    def _clip(self, parameters, norm): ...


def test_a_step_is_loss_within_autocast_then_backward():
    job = FakeJob()

    def loss(*batch: str) -> tuple[str, ...]:
        job.calls.append(("loss", *batch))
        return batch

    step = job.step_of(loss, "adam", "x", "y")
    batch = ("x on d", "y on d")
    moved = [("moved", "x"), ("moved", "y")]
    assert job.calls == moved
    one = ["autocast begins", ("loss", *batch), "autocast ends", ("backward", batch, "adam")]
    assert [step(), step()] == [batch, batch]
    assert job.calls == [*moved, *one, *one]
