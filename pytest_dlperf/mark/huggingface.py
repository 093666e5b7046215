"""Marks the steps of Hugging Face's Trainer: ``Trainer(..., callbacks=[StepCallback()])``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from pytest_dlperf.mark import checked, step

if TYPE_CHECKING:
    from pytest_dlperf.mark import Step


class StepCallback(TrainerCallback):  # type: ignore[misc]  # transformers has no types here
    """Marks every optimizer step; outside a case it does nothing.

    The loss is reported where the Trainer logs it (``logging_steps``), before the last measured
    step.
    Gradient accumulation is part of a step: ``work`` is what this rank does in one optimizer step,
    in the case's unit. Left out, it is the ``work`` of the marker, or else batch size times
    accumulation steps, where the case counts samples. ``is_checked`` has the parameters that are
    trained, and the precision, checked as ``pytest_dlperf.mark.checked`` says; ``fixed_batch`` is
    its own.
    """

    def __init__(
        self, work: float | None = None, *, is_checked: bool = False, fixed_batch: bool = False
    ) -> None:
        self._work = work
        self._is_checked, self._fixed_batch = is_checked or fixed_batch, fixed_batch
        self._step: Step | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Declare what is checked."""
        if self._is_checked:
            trained = [p for p in kwargs["model"].parameters() if p.requires_grad]
            checked(trained, fixed_batch=self._fixed_batch)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin a step."""
        samples = args.train_batch_size * args.gradient_accumulation_steps
        self._step = step(work=self._work, samples=samples)
        self._step.__enter__()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End the step."""
        if self._step is not None:
            self._step.__exit__(None, None, None)

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
