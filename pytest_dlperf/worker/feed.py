"""Feeds a rank its real data: times the waits for it, and reports errors of its loaders."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from multiprocessing.queues import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Protocol

from pytest_dlperf.core.wire_records import DataNotes, DataRecord
from pytest_dlperf.worker.batch_rows import BatchRows, RowsOfIteration
from pytest_dlperf.worker.failure import WorkerFailure

if TYPE_CHECKING:
    # Not in the standard library of Python 3.10.
    from typing_extensions import Unpack


#: Seconds that the readers are measured without a training.
_ALONE_S: Final = 1.0


class Dataset(Protocol):
    """Samples by number, as the frameworks' own loaders read them."""

    def __len__(self) -> int:
        """Return the number of samples."""
        ...

    def __getitem__(self, index: int, /) -> Any:
        """Return a sample: a tuple of arrays."""
        ...


class Feed:
    """What a rank reads while it trains."""

    def __init__(self) -> None:
        self._waited_s: float | None = None
        self._open: list[Iterator[Any]] = []
        self._taken = self._iterations = 0
        self._complaints: SimpleQueue[tuple[str, str]] | None = None
        self._notes = DataNotes()
        #: What this iteration trains on, of batches and of the model's calls.
        self.rows = RowsOfIteration()
        #: Returns what is open around the wait for a batch; a profiler names it so.
        self.around: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext

    @property
    def used(self) -> bool:
        """Whether the rank reads anything."""
        return self._waited_s is not None

    def batches(self, loader: Iterable[Any], counted: BatchRows | None = None) -> Iterator[Any]:
        """Return the batches of ``loader``, epoch after epoch without end; waits are timed.

        ``counted`` says the rows of a batch: one that is not whole is an error, unless its
        iteration says its work.
        """
        self._waited_s = 0.0
        self._open.append(self._endless(loader, counted))
        return self._timed(self._open[-1])

    def guard(self, dataset: Dataset, ranks: int, batch_size_per_device: int) -> Guarded:
        """Return ``dataset`` such that its errors reach the rank, of equal length for all ranks.

        Raises ``WorkerFailure`` if it does not have one batch for each rank.
        """
        if len(dataset) < ranks * batch_size_per_device:
            raise WorkerFailure(
                "data-too-few",
                f"--dlperf-data has {len(dataset)} samples, and one iteration of {ranks} x "
                f"{batch_size_per_device} takes {ranks * batch_size_per_device}; add samples, or "
                "lower the batch size",
            )
        if self._complaints is None:
            self._complaints = multiprocessing.SimpleQueue()
        return Guarded(dataset, len(dataset) - len(dataset) % ranks, self._complaints)

    def note(self, **notes: Unpack[DataNotes]) -> None:
        """Put ``notes`` on the data into the record."""
        self._notes.update(notes)

    def take_wait(self) -> float | None:
        """Return seconds waited since the last call; None if this rank reads nothing."""
        waited_s = self._waited_s
        if waited_s is not None:
            self._waited_s = 0.0
            self._iterations += 1
        return waited_s

    def read_alone(self) -> None:
        """Read for a second while nothing trains, and note how many batches that gave.

        From the first batch on, so that starting the readers is not in it. What is read is not
        trained on.
        """
        if not self._open:
            return
        for source in self._open:
            next(source)
        begin_s, batches = time.perf_counter(), 0
        while True:
            for source in self._open:
                next(source)
                batches += 1
            seconds = time.perf_counter() - begin_s
            if seconds >= _ALONE_S:
                break
        self.note(alone_batches=batches, alone_seconds=seconds)
        self.rows.forget()

    def record(self) -> DataRecord:
        """Return the record ``data``: what kind of data they are, and the notes on them."""
        if self._iterations:
            self.note(batches_per_iteration=self._taken / self._iterations)
        return DataRecord(kind="real" if self.used else "synthetic", **self._notes)

    def close(self) -> None:
        """End what still reads ahead."""
        while self._open:
            self._open.pop().close()  # type: ignore[attr-defined]  # it is a generator

    def _timed(self, source: Iterator[Any]) -> Iterator[Any]:
        while True:
            begin_s = time.perf_counter()
            with self.around():
                batch = next(source)
            self._waited_s = (self._waited_s or 0.0) + time.perf_counter() - begin_s
            self._taken += 1
            yield batch

    def _endless(self, loader: Iterable[Any], counted: BatchRows | None) -> Iterator[Any]:
        for epoch in itertools.count():
            for name in ("sampler", "batch_sampler"):
                set_epoch = getattr(getattr(loader, name, None), "set_epoch", None)
                if set_epoch is not None:
                    set_epoch(epoch)
            empty = True
            try:
                for batch in loader:
                    empty = False
                    if counted is not None:
                        rows = counted.rows_of(batch)
                        self.rows.expect(rows, counted.whole, "a batch of job.batches")
                    yield batch
            except Exception:
                self._raise_complaint()
                raise
            self._raise_complaint()
            if empty:
                raise WorkerFailure(
                    "data-too-few",
                    "--dlperf-data has no whole batch for this rank; add samples, or lower the "
                    "batch size",
                )

    def _raise_complaint(self) -> None:
        if self._complaints is not None and not self._complaints.empty():
            raise WorkerFailure(*self._complaints.get()) from None


class Guarded:
    """A dataset of samples by number, whose errors reach the rank from wherever it is read."""

    def __init__(
        self, dataset: Dataset, length: int, complaints: SimpleQueue[tuple[str, str]]
    ) -> None:
        self._dataset = dataset
        self._length = length
        self._complaints = complaints

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Any:
        # An error ends the epoch, where the rank looks for complaints: Paddle's reading thread
        # dies of any other exception without a word, and its reader then waits for ever.
        try:
            return self._dataset[index]
        except WorkerFailure as failure:
            self._complaints.put((failure.code, str(failure)))
            raise StopIteration from failure
        except Exception as error:
            traceback.print_exc()
            message = f"sample {index} cannot be read: {type(error).__name__}: {error}"
            self._complaints.put(("data-unreadable", message))
            raise StopIteration from error
