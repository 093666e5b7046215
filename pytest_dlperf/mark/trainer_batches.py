"""What goes into the steps of a trainer that owns the loop: the batches that its loader gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pytest_dlperf.worker.batch_rows import BatchRows, StepRows

if TYPE_CHECKING:
    from pytest_dlperf.mark import Step

#: How a user says the work of a step: a number, or a function of a batch of its loader.
Work = float | Callable[[Any], Any] | None


def constant(work: Work) -> float | None:
    """Return the work of every step; None where a function says that of each batch."""
    return None if callable(work) else work


class StepBatches:
    """The batches of one step after another: their rows, or the work that a function says."""

    def __init__(self, work: Work, whole_rows: int, whole_batches: int = 1) -> None:
        """``whole_rows`` are those of a whole batch, and a whole step has ``whole_batches``."""
        self._work = work if callable(work) else None
        self._counted = BatchRows(whole_rows)
        self._whole_batches = whole_batches
        self.forget()

    def forget(self) -> None:
        """Forget the batches of a step that will not end."""
        self._amounts: list[Any] = []
        self._rows: list[int | None] = []

    def take(self, batch: Any) -> None:
        """Count a batch into the step that ends next."""
        if self._work is not None:
            self._amounts.append(self._work(batch))
        else:
            self._rows.append(self._counted.rows_of(batch))

    def say(self, step: Step) -> None:
        """Say to ``step``, which ends, what went into it."""
        if self._amounts:
            step.work(sum(self._amounts[1:], self._amounts[0]))
        else:
            counted = [rows for rows in self._rows if rows is not None]
            # More batches than a step has were read for one that did not end
            is_known = len(counted) == len(self._rows) and 0 < len(counted) <= self._whole_batches
            step.rows(
                StepRows(
                    rows=sum(counted) if is_known else None,
                    whole_rows=self._counted.whole * self._whole_batches,
                    batches=len(self._rows),
                    whole_batches=self._whole_batches,
                )
            )
        self.forget()


def observe(loader: Any, each: Callable[[Any], None]) -> None:
    """Call ``each`` with every batch that ``loader`` gives from now on.

    The loader gets a class of its own, since a trainer keeps the object and only iterates it. One
    whose class cannot be changed is left alone.
    """
    kind = type(loader)
    if hasattr(kind, "dlperf_each"):
        kind.dlperf_each = staticmethod(each)
        return

    def observed(self: Any) -> Iterator[Any]:
        for batch in kind.__iter__(self):
            type(self).dlperf_each(batch)
            yield batch

    own = {
        "__iter__": observed,
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "dlperf_each": staticmethod(each),
    }
    try:
        # Accelerate's loaders have a property of that name, by which they pass for PyTorch's
        object.__dict__["__class__"].__set__(loader, type(kind.__name__, (kind,), own))
    except TypeError:
        return  # its batches are not seen, which the end of a step says
