"""For Hugging Face's Trainer: ``Trainer(..., callbacks=[StepCallback()])``."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from pytest_dlperf.mark import step


class StepCallback(TrainerCallback):  # type: ignore[misc]  # transformers has no types here
    """Marks every optimizer step; outside a case it does nothing.

    Gradient accumulation is part of a step: ``work`` is the samples (or whatever the case
    counts) of this rank in one optimizer step, by default batch size times accumulation steps.
    """

    def __init__(self, work: float | None = None) -> None:
        self._work = work

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin a step."""
        work = self._work
        if work is None:
            work = args.train_batch_size * args.gradient_accumulation_steps
        self._step = step(work=work)
        self._step.__enter__()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End it."""
        self._step.__exit__(None, None, None)
