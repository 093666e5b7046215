"""What a TensorFlow workload is given.

Where TensorFlow has no counterpart of a word in ``Job``, this is what the word means:

- A precision is a property of layers (Keras policy), set before ``build`` is called, so layers
  that it makes have it; ``autocast()`` therefore does nothing.
- ``data_parallel(model)`` gives every rank the variables of rank 0, and declares the trainable
  ones; it wraps nothing. Gradients are averaged by ``update`` (or ``backward``), or by hand.
- ``optimizer(optimizer)`` adds loss scaling where the precision needs it.
- ``gradients`` goes backward on this rank alone, so it may be compiled (``jit_compile``);
  ``update`` averages over the ranks and applies, and must not be: Horovod is outside of XLA.
  ``backward`` is both.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from pytest_dlperf.worker.frameworks.tensorflow.ranks import Ranks
from pytest_dlperf.worker.job import Job


class LossScaling:
    """The loss scaling of one optimizer."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer
        self._used = False

    def is_enabled(self) -> bool:
        """Return whether gradients were really scaled."""
        return self._used

    def seed(self) -> Any:
        """Return what a backward pass starts from in place of 1."""
        self._used = True
        return self.optimizer.loss_scale

    def unscale(self, gradients: Sequence[Any]) -> list[Any]:
        """Return gradients of their true size."""
        return list(self.optimizer.get_unscaled_gradients(gradients))


@dataclass(kw_only=True)
class TensorflowJob(Job):
    """A rank of a TensorFlow training."""

    ranks: Ranks
    models: list[Any] = field(default_factory=list)
    declared: list[Any] | None = None

    def generator(self) -> Any:
        """Return a ``tf.random.Generator``; ranks draw different numbers."""
        return tf.random.Generator.from_seed(self.seed * 100_003 + self.replica)

    def data_parallel(self, module: Any, **options: Any) -> Any:
        """Return ``module``, a built Keras model, with the values of rank 0."""
        if options:
            raise TypeError(f"TensorFlow wraps no model; it takes no {sorted(options)}")
        if not module.built:
            raise ValueError("data_parallel(model) needs a built model; call model.build(shape)")
        self.check_averaged_by_all()
        self.models.append(module)
        self.replicated(module.trainable_variables)
        self.ranks.broadcast(module.variables)
        return module

    def replicated(self, parameters: Iterable[Any]) -> None:
        """Declare variables that must be equal on all ranks at the end."""
        self.declared = [*(self.declared or []), *parameters]

    def autocast(self) -> AbstractContextManager[Any]:
        """Return a context that does nothing: layers carry the precision themselves."""
        return contextlib.nullcontext()

    def optimizer(self, optimizer: Any) -> Any:
        """Return ``optimizer``, for amp in a ``LossScaleOptimizer``."""
        if self.precision != "amp":
            return optimizer
        scaled = tf.keras.mixed_precision.LossScaleOptimizer(optimizer)
        self.scaler = LossScaling(scaled)
        return scaled

    def gradients(self, tape: tf.GradientTape, loss: Any, parameters: Iterable[Any]) -> list[Any]:
        """Return this rank's gradients, scaled where the precision needs it."""
        seed = None if self.scaler is None else self.scaler.seed()
        return list(tape.gradient(loss, list(parameters), output_gradients=seed))

    def update(
        self,
        optimizer: Any,
        gradients: Sequence[Any],
        parameters: Iterable[Any],
        *,
        clip_norm: float | None = None,
    ) -> None:
        """Average the gradients over the ranks, unscale, clip if asked, and apply them."""
        averaged = self.ranks.average(gradients)
        if self.scaler is not None:
            averaged = self.scaler.unscale(averaged)
        if clip_norm is not None:
            averaged, _ = tf.clip_by_global_norm(averaged, clip_norm)
        optimizer.apply_gradients(zip(averaged, list(parameters), strict=True))

    def backward(
        self,
        loss: Any,
        optimizer: Any,
        *,
        clip_norm: float | None = None,
        parameters: Iterable[Any] | None = None,
        tape: tf.GradientTape | None = None,
    ) -> None:
        """Do ``gradients`` and ``update``; needs the tape and the parameters."""
        if tape is None or parameters is None:
            raise ValueError("in TensorFlow, backward needs tape=... and parameters=...")
        variables = list(parameters)
        gradients = self.gradients(tape, loss, variables)
        self.update(optimizer, gradients, variables, clip_norm=clip_norm)
