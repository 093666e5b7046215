"""Watches a JAX training: the compiled functions that it calls, their inputs and their work."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import jax
import numpy as np

from pytest_dlperf.core.wire_model import Checksum, ShardChecksum
from pytest_dlperf.worker.failure import WorkerFailure
from pytest_dlperf.worker.frameworks.base import checksum_of
from pytest_dlperf.worker.frameworks.jax.flops import Work, work_of

#: What JAX calls from Python to run a compiled function with its jaxpr, and what then makes the
#: shortcut that later calls take without Python. Neither is public.
_RUN: Final = "_pjit_call_impl_python"
_SHORTCUT: Final = "_get_fastpath_data"


class Watch:
    """Sees the calls of compiled functions until the second iteration has ended.

    Until then no shortcut is made, so that each call passes through Python, where its jaxpr and
    its arguments are seen; nothing is traced or compiled again. The calls of the second iteration
    make the shortcuts that the rest of the training takes.
    """

    def __init__(self, parameters: Callable[[], Any]) -> None:
        """``parameters`` returns those that are declared, a tree of arrays."""
        self.shapes: list[list[int]] | None = None
        self.work = Work()
        #: Why nobody looked, and what to do; empty otherwise.
        self.unwatched = ""
        self._parameters = parameters
        self._on_call: Callable[[Any, Sequence[Any]], None] | None = None
        self._work: dict[int, tuple[Any, Work]] = {}
        self._restore_shortcut: Callable[[], None] = lambda: None
        self._restore = self._patch()

    def _patch(self) -> Callable[[], None]:
        module: Any = getattr(jax, "_src", None) and jax._src.pjit
        run, shortcut = (getattr(module, name, None) for name in (_RUN, _SHORTCUT))
        if run is None or shortcut is None:
            self.unwatched = (
                f"JAX {jax.__version__} calls its compiled functions in a way that is not known "
                "here; a newer pytest-dlperf may know it"
            )
            return lambda: None

        def seen(*args: Any, **parameters: Any) -> Any:
            if self._on_call is not None and "jaxpr" in parameters:
                self._look(self._on_call, parameters["jaxpr"], args)
            return run(*args, **parameters)

        def restore() -> None:
            setattr(module, _RUN, run)
            setattr(module, _SHORTCUT, shortcut)

        setattr(module, _RUN, seen)
        setattr(module, _SHORTCUT, lambda *_args, **_kwargs: None)
        self._restore_shortcut = lambda: setattr(module, _SHORTCUT, shortcut)
        return restore

    def _look(
        self, on_call: Callable[[Any, Sequence[Any]], None], jaxpr: Any, args: Sequence[Any]
    ) -> None:
        """Look at a call; what that raises does not reach the training."""
        try:
            on_call(jaxpr, args)
        except Exception as error:  # noqa: BLE001  # of a jaxpr that is not known here
            self.work.uncounted.note("jaxpr", ())
            self.unwatched = (
                f"a function of JAX {jax.__version__} could not be read: "
                f"{type(error).__name__}: {error}"
            )

    @contextlib.contextmanager
    def first(self) -> Iterator[None]:
        """Note, while open, the inputs of the first call that has matrix work."""
        self._on_call = self._note_shapes
        try:
            yield
        finally:
            self._on_call = None

    @contextlib.contextmanager
    def second(self) -> Iterator[None]:
        """Count, while open, the operations of all calls; none is watched afterwards."""
        self._restore_shortcut()
        self._on_call = self._count
        try:
            yield
        finally:
            self._on_call = None
            self._restore()

    def _note_shapes(self, jaxpr: Any, args: Sequence[Any]) -> None:
        work = self._work_of(jaxpr)
        if self.shapes is not None or not (work.flops or work.uncounted):
            return
        arrays = [a for a in (*args, *jaxpr.consts) if isinstance(a, jax.Array) and a.ndim]
        # The optimizer's state has the shapes of the parameters; labels can have one by chance,
        # but are whole numbers
        held = {leaf.shape for leaf in jax.tree.leaves(self._parameters())}
        inputs = [a for a in arrays if a.shape not in held or a.dtype.kind in "iu"] or arrays
        self.shapes = [list(a.sharding.shard_shape(a.shape)) for a in inputs]

    def _count(self, jaxpr: Any, args: Sequence[Any]) -> None:
        self.work.add(self._work_of(jaxpr), times=_own_share(args))

    def _work_of(self, jaxpr: Any) -> Work:
        # The jaxpr is held, so that its number stays its own
        if id(jaxpr) not in self._work:
            self._work[id(jaxpr)] = jaxpr, work_of(jaxpr.jaxpr)
        return self._work[id(jaxpr)][1]


def _own_share(args: Sequence[Any]) -> float:
    """Return the part of a computation that this process's devices do."""
    shardings = [a.sharding for a in args if isinstance(a, jax.Array)]
    if not shardings:
        return 1.0
    widest = max(shardings, key=lambda one: len(one.device_set))
    return len(widest.addressable_devices) / len(widest.device_set)


def held(parameters: Any) -> dict[str, int]:
    """Return how many parameters this rank has, by which shard of which of them it is.

    Those that it has whole are under the empty text.
    """
    found: Counter[str] = Counter()
    for number, leaf in enumerate(jax.tree.leaves(parameters)):
        if leaf.is_fully_replicated:
            found[""] += leaf.size
            continue
        for shard in leaf.addressable_shards:
            found[f"{number} {shard.index}"] = shard.data.size
    return dict(found)


def checksum(parameters: Any) -> Checksum:
    """Return a digest of the bytes of a tree of arrays, in its order.

    Of what is sharded this process's shards count, with a digest of their own. Raises
    ``WorkerFailure`` for parameters that were donated, and where two devices of this process hold
    other numbers of the same part.
    """
    leaves = jax.tree.leaves(parameters)
    for leaf in leaves:
        if leaf.is_deleted():
            raise WorkerFailure(
                "parameters-donated",
                "the declared parameters were donated to a later step; let the function that "
                "job.replicated was given return those of now",
            )
    whole = [leaf for leaf in leaves if leaf.is_fully_replicated]
    sharded = [leaf for leaf in leaves if not leaf.is_fully_replicated]
    found = checksum_of(part for leaf in whole for _, part in _parts(leaf))
    if sharded:
        parts = [one for leaf in sharded for one in _parts(leaf)]
        place = checksum_of(where.encode() for where, _ in parts)
        of_shards = checksum_of(part for _, part in parts)
        found["shards"] = ShardChecksum(
            digest=of_shards["digest"], tensors=of_shards["tensors"], place=place["digest"]
        )
    return found


def _parts(leaf: Any) -> list[tuple[str, bytes]]:
    """Return the different parts of an array that this process has, each with its place."""
    found: dict[str, bytes] = {}
    for shard in leaf.addressable_shards:
        where, data = repr(shard.index), np.asarray(shard.data).tobytes()
        if found.setdefault(where, data) != data:
            raise WorkerFailure(
                "replicas-differ",
                "the replicated parameters differ between devices of one process after training; "
                "gradients are not averaged over the ranks' devices, so these train different "
                "models",
            )
    return sorted(found.items())
