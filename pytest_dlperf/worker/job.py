"""The job that a workload is given: its place among the ranks, and wrappers of its framework."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pytest_dlperf.core.wire_parallel import Parallel
from pytest_dlperf.worker.arguments import Arguments
from pytest_dlperf.worker.batch_rows import BatchRows
from pytest_dlperf.worker.feed import Feed
from pytest_dlperf.worker.records import MetricBook

if TYPE_CHECKING:
    # Not in the standard library of Python 3.10.
    from typing_extensions import Self

#: The workload option for the number of processes or threads that read data for a rank.
DATA_WORKERS_OPTION: Final = "data_workers"


@dataclass(kw_only=True)
class Job(abc.ABC):
    """One rank of a training; ``build(job)`` returns the function that does one iteration.

    The methods below are what a framework provides; a workload may use them or do it all by
    hand, except that ranks which hold the same parameters must be declared: by
    ``data_parallel``, or by ``replicated``.
    """

    #: How a workload gets the arithmetic of its precision.
    half_by: ClassVar[str] = "Wrap the forward pass in job.autocast()"

    rank: int
    local_rank: int
    world_size: int
    device: Any
    precision: str
    batch_size_per_device: int
    size: str
    seed: int
    options: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    #: The dtype of parameters: float16 for ``pure_fp16``, else float32.
    dtype: Any = None
    #: The loss scaler where the precision needs one (``amp``), else None.
    scaler: Any = None
    #: Folder of real data (``--dlperf-data``); None: the workload makes its own.
    data: str | None = None
    feed: Feed = field(default_factory=Feed)
    #: Work of this rank in an iteration, in the case's unit; None until ``work`` says it.
    iteration_work: float | None = None
    #: How the ranks copy, shard and split the model: ``parallel`` of the marker.
    parallel: Parallel = field(default_factory=Parallel)
    #: Devices that this rank drives.
    devices_per_process: int = 1
    book: MetricBook = field(default_factory=MetricBook)

    @classmethod
    def of(cls, arguments: Arguments, **own: Any) -> Self:
        """Return the job of the rank with these arguments; ``own`` are the framework's fields."""
        return cls(
            rank=arguments.rank,
            local_rank=arguments.local_rank,
            world_size=arguments.world_size,
            precision=arguments.precision,
            batch_size_per_device=arguments.batch_size_per_device,
            size=arguments.size,
            seed=arguments.seed,
            options=arguments.options,
            parallel=Parallel.parse(arguments.parallel),
            devices_per_process=arguments.devices_per_process,
            data=arguments.data,
            **own,
        )

    def work(self, amount: float) -> None:
        """Say how much one replica does in an iteration, in the case's unit: a rank, mostly.

        Called in ``build`` it is said of every iteration; called in a step, of that one and of
        those after it, as for batches that are packed. Where the marker's ``parallel`` splits the
        model, this rank's part of it counts; without it, ranks that share a batch each say their
        part. A rank that drives several devices has as many replicas. Raises ``ValueError`` for
        anything but a finite number above 0.
        """
        is_number = hasattr(amount, "__float__") and not isinstance(amount, bool)
        # A tensor would be waited for in every step
        if not is_number or hasattr(amount, "device") or hasattr(amount, "place"):
            raise ValueError(f"job.work({amount!r}): give a number, such as batch * length")
        if not (math.isfinite(amount) and amount > 0):
            raise ValueError(f"job.work({amount!r}): give a finite number above 0")
        self.iteration_work = float(amount) * self.devices_per_process / self.parallel.split
        self.feed.rows.is_said = True

    @property
    def replicas(self) -> int:
        """Number of replicas: devices, or groups of them that share a batch."""
        return self.world_size // self.parallel.split

    @property
    def replica(self) -> int:
        """The number of this rank's first replica; the ranks of one train on the same data."""
        return self.parallel.replica(self.rank * self.devices_per_process)

    def check_averaged_by_all(self) -> None:
        """Raise ``ValueError`` where gradients are not to be averaged over all ranks."""
        if self.parallel.split > 1:
            raise ValueError(
                f"job.data_parallel averages over all ranks here, and {self.parallel.split} of "
                "them share a batch (parallel=); average over the replicas yourself, and call "
                "job.replicated(parameters)"
            )

    def metric(self, name: str, value: Any, *, better: str, unit: str = "") -> None:
        """Report a metric of this rank: the mean of its calls in the measured window counts.

        ``better`` is ``lower`` or ``higher``. A tensor of a GPU is read after the window. Raises
        ``ValueError`` where the name was used with another unit or direction before.
        """
        self.book.add(name, value, better, unit)

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Return the context of a phase, such as ``checkpoint``: ``checkpoint_seconds``."""
        return self.book.phase(name)

    @property
    def data_workers(self) -> int:
        """How many workers read data for this rank: the option, else 4 on a GPU, 0 on a CPU."""
        default = 0 if "cpu" in str(self.device).lower() else 4
        return int(self.options.get(DATA_WORKERS_OPTION, default))

    def batches(self, loader: Iterable[Any]) -> Iterator[Any]:
        """Return the batches of ``loader`` (the framework's own) without end.

        The host's wait in each ``next`` is measured; samplers learn of each epoch. A batch of
        fewer rows than the case's is an error, unless ``work`` is called in its step.
        """
        self.feed.note(workers=self.data_workers)
        return self.feed.batches(loader, BatchRows(self.rows_of_batch, self.batch_dimension))

    @property
    def rows_of_batch(self) -> int:
        """Rows of a whole batch of this rank: of all replicas that it has a part of."""
        return self.batch_size_per_device * max(1, self.devices_per_process // self.parallel.split)

    @property
    def batch_dimension(self) -> int:
        """Which dimension of the model's inputs the rows of a batch are."""
        return int(self.options.get("batch_dimension", 0))

    @abc.abstractmethod
    def generator(self) -> Any:
        """Return a random generator on the device, seeded for this rank's replica."""

    @abc.abstractmethod
    def data_parallel(self, module: Any, **options: Any) -> Any:
        """Return ``module`` on the device, wrapped for data parallelism if there are ranks.

        Its parameters count as replicated: they must be equal on all ranks at the end.
        """

    @abc.abstractmethod
    def replicated(self, parameters: Iterable[Any]) -> None:
        """Declare parameters that must be equal on all ranks at the end; may be empty."""

    @abc.abstractmethod
    def autocast(self) -> AbstractContextManager[Any]:
        """Return the context of the precision's mixed arithmetic; does nothing for fp32."""

    @abc.abstractmethod
    def backward(
        self,
        loss: Any,
        optimizer: Any,
        *,
        clip_norm: float | None = None,
        parameters: Iterable[Any] | None = None,
    ) -> None:
        """Clear gradients, go backward, clip if asked, and step the optimizer.

        With loss scaling where the precision needs it. ``clip_norm`` needs ``parameters``.
        """


class AutogradJob(Job):
    """A job of a framework whose losses have ``backward()``: PyTorch and Paddle."""

    def step_of(self, loss: Callable[..., Any], optimizer: Any, *inputs: Any) -> Callable[[], Any]:
        """Return the step that ``build`` returns: ``loss(*inputs)``, ``backward``, update.

        ``loss`` is a function, or a model that returns its loss; it runs within ``autocast``.
        ``inputs`` are one fixed batch, moved to the device once. The step returns the loss.
        """
        batch = [self._on_device(one) for one in inputs]

        def step() -> Any:
            with self.autocast():
                value = loss(*batch)
            self.backward(value, optimizer)
            return value

        return step

    def backward(
        self,
        loss: Any,
        optimizer: Any,
        *,
        clip_norm: float | None = None,
        parameters: Iterable[Any] | None = None,
    ) -> None:
        """Clear, go backward, unscale and clip if asked, step; scaled where there is a scaler."""
        self._clear(optimizer)
        (loss if self.scaler is None else self.scaler.scale(loss)).backward()
        if clip_norm is not None:
            if parameters is None:
                raise ValueError("backward(clip_norm=...) needs parameters=...")
            if self.scaler is not None:
                self.scaler.unscale_(optimizer)
            self._clip(parameters, clip_norm)
        if self.scaler is None:
            optimizer.step()
        else:
            self.scaler.step(optimizer)
            self.scaler.update()

    @abc.abstractmethod
    def _on_device(self, tensor: Any) -> Any:
        """Return the tensor on this rank's device."""

    @abc.abstractmethod
    def _clear(self, optimizer: Any) -> None:
        """Clear the gradients."""

    @abc.abstractmethod
    def _clip(self, parameters: Iterable[Any], norm: float) -> None:
        """Scale the gradients down to this norm, if theirs is larger."""
