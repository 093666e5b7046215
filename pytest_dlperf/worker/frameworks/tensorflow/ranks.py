"""How the ranks of a TensorFlow training reach each other.

Horovod where ``horovodrun`` or ``mpirun`` started them; else the all-reduce of
``MultiWorkerMirroredStrategy``, with plain variables: at one device a process the strategy's
mirrored variables have one copy each, so the same work is done either way.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypedDict

import tensorflow as tf

from pytest_dlperf.worker.arguments import Arguments
from pytest_dlperf.worker.failure import WorkerFailure
from pytest_dlperf.worker.frameworks import nccl_version
from pytest_dlperf.worker.frameworks.tensorflow import horovod_operations


class CollectiveLibraries(TypedDict, total=False):
    """What carries the collectives, for the record ``framework``."""

    nccl: str | None
    #: Its version, and the operations it was built with.
    horovod: str


class Ranks(Protocol):
    """The ranks of a job, as one of them sees the others."""

    @property
    def backend(self) -> str | None:
        """Return what carries the collectives; None for a single rank."""
        ...

    def facts(self) -> CollectiveLibraries:
        """Return the versions of NCCL and Horovod, as far as known."""
        ...

    def average(self, tensors: Sequence[Any]) -> list[Any]:
        """Return the means over the ranks; ``None`` among the tensors stays. Works in graphs."""
        ...

    def broadcast(self, variables: Iterable[Any]) -> None:
        """Give every rank the values of rank 0."""
        ...

    def close(self) -> None:
        """Leave."""
        ...


class Alone:
    """One rank: nothing to agree on."""

    backend = None

    def facts(self) -> CollectiveLibraries:
        """Return nothing."""
        return CollectiveLibraries()

    def average(self, tensors: Sequence[Any]) -> list[Any]:
        """Return them as they are."""
        return list(tensors)

    def broadcast(self, variables: Iterable[Any]) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class HorovodRanks:
    """Ranks under Horovod."""

    def __init__(self, arguments: Arguments) -> None:
        # Without these a rank waits for a lost one for ever, with a warning a minute.
        os.environ.setdefault(
            "HOROVOD_STALL_CHECK_TIME_SECONDS",
            str(max(1, int(arguments.collective_timeout_s / 2))),
        )
        os.environ.setdefault(
            "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", str(max(2, int(arguments.collective_timeout_s)))
        )
        # Records nothing until it is asked to, after the window: see ``watch.py``.
        os.environ.setdefault("HOROVOD_TIMELINE", "DYNAMIC")
        try:
            import horovod
            import horovod.tensorflow as hvd
        except (ImportError, tf.errors.NotFoundError) as error:
            raise WorkerFailure(
                "horovod-unusable",
                f"Horovod cannot be used with TensorFlow {tf.__version__} here ({error}); build "
                "it beside this TensorFlow with HOROVOD_WITH_TENSORFLOW=1 pip install "
                "--no-build-isolation horovod",
            ) from error
        hvd.init()
        _check_size(hvd.size(), arguments)
        self._hvd = hvd
        built = [name for name, there in horovod_operations(hvd).items() if there]
        self._facts = CollectiveLibraries(
            nccl=nccl_version(hvd.nccl_built()),
            horovod=f"{horovod.__version__} with {', '.join(built) or 'nothing'}",
        )
        if arguments.device == "gpu" and hvd.nccl_built():
            self.backend = "horovod-nccl"
        else:
            self.backend = "horovod-gloo" if hvd.gloo_enabled() else "horovod-mpi"

    def start_timeline(self, path: str) -> bool:
        """Let Horovod write its timeline; return whether it does, on its first rank alone."""
        try:
            self._hvd.start_timeline(path)
        except ValueError:
            return False  # HOROVOD_TIMELINE is set: it writes another already
        return True

    def stop_timeline(self) -> None:
        """Let Horovod finish its timeline."""
        self._hvd.stop_timeline()

    def facts(self) -> CollectiveLibraries:
        """Return Horovod's version and operations, and the NCCL that it was built with."""
        return self._facts

    def average(self, tensors: Sequence[Any]) -> list[Any]:
        """Average each tensor by itself: Horovod fuses those that are ready together."""
        return [t if t is None else self._hvd.allreduce(t, op=self._hvd.Average) for t in tensors]

    def broadcast(self, variables: Iterable[Any]) -> None:
        """Give every rank the values of rank 0."""
        self._hvd.broadcast_variables(list(variables), root_rank=0)

    def close(self) -> None:
        """Leave, together."""
        self._hvd.shutdown()


class StrategyRanks:
    """Ranks under TensorFlow's own multi-worker strategy, placed by TF_CONFIG."""

    def __init__(self, arguments: Arguments) -> None:
        communication = tf.distribute.experimental.CommunicationImplementation
        nccl = arguments.device == "gpu"
        self._options = tf.distribute.experimental.CommunicationOptions(
            timeout_seconds=arguments.collective_timeout_s,
            implementation=communication.NCCL if nccl else communication.RING,
        )
        self._strategy = tf.distribute.MultiWorkerMirroredStrategy(
            communication_options=self._options
        )
        _check_size(self._strategy.num_replicas_in_sync, arguments)
        self._is_first = arguments.rank == 0
        self.backend = "multi-worker-nccl" if nccl else "multi-worker-ring"

    def facts(self) -> CollectiveLibraries:
        """Return nothing: TensorFlow does not tell which NCCL it holds."""
        return CollectiveLibraries()

    def average(self, tensors: Sequence[Any]) -> list[Any]:
        """Average all of them in one packed all-reduce."""
        given = [tensor for tensor in tensors if tensor is not None]
        means = iter(self._all_reduce(given, tf.distribute.ReduceOp.MEAN))
        return [tensor if tensor is None else next(means) for tensor in tensors]

    def broadcast(self, variables: Iterable[Any]) -> None:
        """Give every rank the values of rank 0: the others add nothing to them."""
        targets = list(variables)
        values = [v.read_value() if self._is_first else tf.zeros_like(v) for v in targets]
        sums = tf.function(self._all_reduce)(values, tf.distribute.ReduceOp.SUM)
        for variable, value in zip(targets, sums, strict=True):
            variable.assign(value)

    def close(self) -> None:
        """Do nothing: the strategy ends with its process."""

    def _all_reduce(self, tensors: list[Any], operation: Any) -> list[Any]:
        def in_replica(values: list[Any]) -> Any:
            # Reduced to the device of the values, which those from outside do not name.
            here = [tf.identity(value) for value in values]
            context = tf.distribute.get_replica_context()
            return context.all_reduce(operation, here, options=self._options)

        return list(self._strategy.run(in_replica, args=(tensors,)))


def join(arguments: Arguments) -> Ranks:
    """Join the other ranks: by TF_CONFIG if the launcher wrote one, else under Horovod."""
    if arguments.world_size == 1:
        return Alone()
    return StrategyRanks(arguments) if os.environ.get("TF_CONFIG") else HorovodRanks(arguments)


def _check_size(joined: int, arguments: Arguments) -> None:
    if joined != arguments.world_size:
        raise WorkerFailure(
            "world-size-mismatch",
            f"{joined} ranks of tensorflow found each other, the case has {arguments.world_size}; "
            "launcher='horovodrun', 'mpirun' or 'tf-multiworker' brings them together",
        )
