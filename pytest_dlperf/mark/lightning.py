"""Marks the steps of Lightning's Trainer: ``Trainer(..., callbacks=[StepCallback()])``."""

from __future__ import annotations

from typing import Any

from lightning.pytorch.callbacks import Callback

from pytest_dlperf.mark import step


class StepCallback(Callback):  # type: ignore[misc]  # Lightning is not there where types are checked
    """Marks every training batch; outside a case it does nothing.

    ``work`` is how much this rank does in one batch, in the case's unit; the case's batch size
    per device if it is left out.
    """

    def __init__(self, work: float | None = None) -> None:
        super().__init__()
        self._work = work

    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        """Begin a step."""
        self._step = step(work=self._work)
        self._step.__enter__()

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """End the step, and report its loss."""
        loss = outputs.get("loss") if isinstance(outputs, dict) else None
        if loss is not None:
            self._step.loss(loss)
        self._step.__exit__(None, None, None)
