"""Marks the training steps in your own program, for a case with ``command=[...]``.

    from pytest_dlperf.mark import step

    for batch in loader:
        with step(work=len(batch)):
            train(batch)

This module imports nothing; outside a case ``step`` does nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Protocol

    from pytest_dlperf.worker.batch_rows import StepRows

    class Step(Protocol):
        """One training iteration of this rank."""

        def __enter__(self) -> Step: ...

        def __exit__(self, *error: object) -> None: ...

        def loss(self, value: Any) -> None:
            """Report the loss, a number or a tensor; it is read after the measured window."""

        def work(self, amount: Any) -> None:
            """Say the work of this step, where it is only known within it."""

        def rows(self, rows: StepRows) -> None:
            """Say what went into this step: for a callback, which does not know the case."""

        def abandon(self) -> None:
            """Forget this step, which will not end."""


class _Nothing:
    __slots__ = ()

    def __enter__(self) -> _Nothing:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def loss(self, value: object) -> None:
        pass

    def work(self, amount: object) -> None:
        pass

    def rows(self, rows: object) -> None:
        pass

    def abandon(self) -> None:
        pass


_NOTHING = _Nothing()
#: The recorder under ``marks``, from the first step on. False outside a case; None where another
#: process marks as this rank.
_FOUND: dict[str, Any] = {}


def step(work: Any = None) -> Step:
    """Return the context of one training iteration of this rank.

    ``work`` is how much this rank does in it, in the case's unit: a number above 0, or a tensor of
    one element, of which that of a GPU is read after the window. Where it is only known within the
    step: ``with step() as s: ...; s.work(tokens)``. Left out, every step counts as the ``work`` of
    the case's marker, or else as a whole batch of the case, so leave smaller last batches out;
    that is an error of the case if its unit is none that a batch counts, such as tokens. So is a
    step that begins within a step. The time between two steps is in the second of them, unless it
    is within a ``phase``.
    """
    marks = _marks()
    return marks.step(work) if marks else _NOTHING


def metric(name: str, value: Any, *, better: str, unit: str = "") -> None:
    """Report a metric of this rank's training, such as ``metric("drops", 3, better="lower")``.

    The mean of its calls in the measured window counts; across ranks, the worst. Call it within a
    step. A tensor of a GPU is read after the window. Raises ``ValueError`` where the name was
    used with another unit or direction before.
    """
    marks = _marks()
    if marks:
        marks.metric(name, value, better, unit)


def checked(parameters: Iterable[Any], *, fixed_batch: bool = False) -> None:
    """Have this rank's training checked as that of a workload; call it before the first step.

    ``parameters`` must be equal on all ranks after the last step, which shows that gradients are
    averaged; the matrix work of the second step must be in the dtype of the case's precision.
    ``fixed_batch`` says that every step trains on the same data: the loss must then fall as that
    of the baseline did. For PyTorch; in another framework it raises ``TypeError``.
    """
    marks = _marks()
    if marks:
        marks.checked(parameters, fixed_batch=fixed_batch)


def canary() -> None:
    """Measure the GPU by the canary, before the first step, so that a changed machine is seen.

    For PyTorch; it takes 0.7 GB of the GPU and about 2 s, which count as time to the first step.
    A rank alone is measured: call it where no collective runs. On CPUs the marks have a canary
    without it.
    """
    marks = _marks()
    if marks:
        marks.canary()


class phase:  # a context, as step is
    """The context of a phase, such as ``checkpoint``; its seconds are ``checkpoint_seconds``.

    Between two steps its time is left out of the rate, so that evaluation or a checkpoint is not
    measured as training; within a step it is a part of the step. The device is not waited for.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._began_s = 0.0
        self._phase: Any = None

    def __enter__(self) -> phase:
        from time import perf_counter

        if marks := _marks():
            self._phase = marks.begin_phase(self._name)
        self._began_s = perf_counter()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        from time import perf_counter

        seconds = perf_counter() - self._began_s
        if (marks := _marks()) and self._phase is not None:
            marks.end_phase(self._phase)
        if error is None:
            metric(f"{self._name}_seconds", seconds, better="lower", unit="s")


def _marks() -> Any:
    """Return what marks this rank; false outside a case."""
    if not _FOUND:
        from os import environ

        _FOUND["marks"] = False
        if "DLPERF_MARK" in environ:
            from os import register_at_fork

            from pytest_dlperf.worker.marks import Marks

            _FOUND["marks"] = Marks.of_environment()
            # A forked child that marks may be another rank, and opens its own files.
            register_at_fork(after_in_child=_FOUND.clear)
    return _FOUND["marks"]
