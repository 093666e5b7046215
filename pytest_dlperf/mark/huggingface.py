"""Marks the steps of Hugging Face's Trainer: ``Trainer(..., callbacks=[StepCallback()])``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from pytest_dlperf.mark import _marks, checked, phase, step
from pytest_dlperf.mark.trainer_batches import StepBatches, Work, constant, observe

if TYPE_CHECKING:
    from pytest_dlperf.mark import Step


class StepCallback(TrainerCallback):  # type: ignore[misc]  # transformers has no types here
    """Marks every optimizer step; outside a case it does nothing.

    The loss is reported where the Trainer logs it (``logging_steps``), before the last measured
    step.
    Gradient accumulation is part of a step: ``work`` is what this rank does in one optimizer step,
    in the case's unit, or a function that returns it of one batch of the loader. Left out, it is
    the ``work`` of the marker, or else the rows that the loader gave for the step, where the case
    counts samples: smaller last batches, a last accumulation of fewer batches and
    ``auto_find_batch_size`` count as what they are. Where rows do not show (packed batches), and
    where a constant work meets a step that is not whole, the case is an error.

    Evaluation and checkpoints that the Trainer does between steps are left out of the rate; the
    metrics ``evaluation_seconds`` and ``checkpoint_seconds`` have their time. ``is_checked`` has
    the parameters that are trained, and the precision, checked as ``pytest_dlperf.mark.checked``
    says; ``fixed_batch`` is its own.
    """

    def __init__(
        self, work: Work = None, *, is_checked: bool = False, fixed_batch: bool = False
    ) -> None:
        self._work = work
        self._is_checked, self._fixed_batch = is_checked or fixed_batch, fixed_batch
        self._step: Step | None = None
        self._batches: StepBatches | None = None
        self._phase: phase | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Declare what is checked, and look at what the loader gives.

        With ``auto_find_batch_size`` the training begins again, in the midst of a step.
        """
        if self._step is not None:
            self._step.abandon()
        if self._is_checked:
            trained = [p for p in kwargs["model"].parameters() if p.requires_grad]
            checked(trained, fixed_batch=self._fixed_batch)
        if _marks():
            self._batches = StepBatches(
                self._work, _rows_of_batch(args, state), args.gradient_accumulation_steps
            )
            observe(kwargs.get("train_dataloader"), self._batches.take)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin a step."""
        self._phase = None
        self._step = step(constant(self._work))
        self._step.__enter__()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End the step."""
        if self._step is not None:
            if self._batches is not None:
                self._batches.say(self._step)
            self._step.__exit__(None, None, None)
        self._follow(control)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin what follows an epoch; where a step is open, its batches are of the next one."""
        if self._step is not None:
            self._step.abandon()
        self._follow(control)

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End the evaluation, and begin the checkpoint that follows it."""
        self._end_phase()
        if control.should_save:
            self._begin_phase("checkpoint")

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End the checkpoint."""
        self._end_phase()

    def _follow(self, control: Any) -> None:
        """Begin what the Trainer does next, before the next step."""
        if control.should_evaluate:
            self._begin_phase("evaluation")
        elif control.should_save:
            self._begin_phase("checkpoint")

    def _begin_phase(self, name: str) -> None:
        self._end_phase()
        self._phase = phase(name).__enter__()

    def _end_phase(self) -> None:
        if self._phase is not None:
            self._phase.__exit__(None, None, None)
            self._phase = None

    def on_log(
        self,
        args: Any,
        state: Any,
        control: Any,
        logs: dict[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        """Report the loss that the Trainer logs; it has waited for the GPU already.

        By default the Trainer leaves NaN out of that loss (``logging_nan_inf_filter``); then the
        norm of the gradients shows it. That of fp16 may overflow: such a step is skipped.
        """
        if self._step is None or not logs or "loss" not in logs:
            return
        norm = logs.get("grad_norm", 0.0)
        hidden = not math.isfinite(norm) and not args.fp16
        self._step.loss(norm if hidden else logs["loss"])


def _rows_of_batch(args: Any, state: Any) -> int:
    """Return the rows of a whole batch of this process; of all its GPUs, where it drives some."""
    rows = int(getattr(state, "train_batch_size", None) or args.train_batch_size)
    config = getattr(args, "accelerator_config", None)
    # One batch is then that of all processes
    return rows // args.world_size if getattr(config, "split_batches", False) else rows
