"""Marks the steps of Lightning's Trainer: ``Trainer(..., callbacks=[StepCallback()])``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lightning.pytorch.callbacks import Callback

from pytest_dlperf.mark import _marks, phase, step
from pytest_dlperf.mark.trainer_batches import StepBatches, Work, constant

if TYPE_CHECKING:
    from pytest_dlperf.mark import Step


class StepCallback(Callback):  # type: ignore[misc]  # Lightning is not there where types are checked
    """Marks every training batch; outside a case it does nothing.

    ``work`` is how much this rank does in one batch, in the case's unit, or a function that
    returns it of the batch. Left out, it is the ``work`` of the marker, or else the rows of the
    batch, where the case counts samples. Where those do not show (packed batches), and where a
    constant work meets a smaller batch, the case is an error.

    Validation between the batches is left out of the rate; the metric ``validation_seconds`` has
    its time.
    """

    def __init__(self, work: Work = None) -> None:
        super().__init__()
        self._work = work
        self._step: Step | None = None
        self._batches: StepBatches | None = None
        self._phase: phase | None = None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Look at how many rows a whole batch has."""
        self._abandon()
        if marks := _marks():
            rows = getattr(trainer.train_dataloader, "batch_size", None)
            self._batches = StepBatches(self._work, rows or marks.rows_of_batch)

    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        """Begin a step."""
        self._step = step(constant(self._work))
        self._step.__enter__()
        if self._batches is not None:
            self._batches.take(batch)

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """End the step, and report its loss."""
        if self._step is None:
            return
        loss = outputs.get("loss") if isinstance(outputs, dict) else None
        if loss is not None:
            self._step.loss(loss)
        if self._batches is not None:
            self._batches.say(self._step)
        self._step.__exit__(None, None, None)
        self._step = None

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Forget a batch that the module skipped, and the rest of its epoch with it."""
        self._abandon()

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin a phase that the rate leaves out."""
        self._phase = phase("validation").__enter__()

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """End it."""
        if self._phase is not None:
            self._phase.__exit__(None, None, None)
            self._phase = None

    def _abandon(self) -> None:
        if self._step is not None:
            self._step.abandon()
            self._step = None
            if self._batches is not None:
                self._batches.forget()
