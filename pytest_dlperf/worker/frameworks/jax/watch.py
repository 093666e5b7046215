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

#: What JAX calls from Python to run a compiled function with its jaxpr, what then makes the
#: shortcut that later calls take without Python, and a cache of them. None is public.
_RUN: Final = "_pjit_call_impl_python"
_SHORTCUT: Final = "_get_fastpath_data"
_SHORTCUTS: Final = "_cpp_pjit_cache_fun_only"


class Watch:
    """Sees the calls of compiled functions until the second iteration has ended.

    Until then no shortcut is made, so that each call passes through Python, where its jaxpr and
    its arguments are seen; nothing is traced or compiled again. Then JAX forgets that there were
    none, and the next iteration makes those that the rest of the training takes. A later call
    without one, as with inputs of another shape, is seen as well.
    """

    def __init__(
        self,
        parameters: Callable[[], Any],
        on_inputs: Callable[[Sequence[Sequence[int]]], None] | None = None,
    ) -> None:
        """``parameters`` returns those that are declared, a tree of arrays.

        ``on_inputs`` is called with the shapes of the training's inputs, and again where those of
        a later iteration are others.
        """
        self.shapes: list[list[int]] | None = None
        self.work = Work()
        #: Why nobody looked, and what to do; empty otherwise.
        self.unwatched = ""
        self._parameters, self._on_inputs = parameters, on_inputs
        self._ranks: object = None
        self._on_call: Callable[[Any, Sequence[Any]], None] | None = None
        self._work: dict[int, tuple[Any, Work]] = {}
        self._allow_shortcuts: Callable[[], None] = lambda: None
        self._restore = self._patch()

    def _patch(self) -> Callable[[], None]:
        module: Any = getattr(jax, "_src", None) and jax._src.pjit
        run, shortcut = (getattr(module, name, None) for name in (_RUN, _SHORTCUT))
        forget = getattr(getattr(module, _SHORTCUTS, None), "clear_all", None)
        if run is None or shortcut is None or forget is None:
            self.unwatched = (
                f"JAX {jax.__version__} calls its compiled functions in a way that is not known "
                "here; a newer pytest-dlperf may know it"
            )
            return lambda: None

        def watched_run(*args: Any, **parameters: Any) -> Any:
            if self._on_call is not None and "jaxpr" in parameters:
                self._look(self._on_call, parameters["jaxpr"], args)
            return run(*args, **parameters)

        def allow_shortcuts() -> None:
            setattr(module, _SHORTCUT, shortcut)
            # A function that once got none would never ask again, and each call would take 0.1 ms
            forget()

        setattr(module, _RUN, watched_run)
        setattr(module, _SHORTCUT, lambda *_args, **_kwargs: None)
        self._allow_shortcuts = allow_shortcuts
        return lambda: setattr(module, _RUN, run)

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
        """Count, while open, the operations of all calls; later those of other shapes are seen."""
        self._on_call = self._count
        try:
            yield
        finally:
            self._on_call = None
            self._allow_shortcuts()
            if self._on_inputs is None or self._ranks is None:
                self._restore()
            else:
                self._on_call = self._note_inputs

    def _note_shapes(self, jaxpr: Any, args: Sequence[Any]) -> None:
        work = self._work_of(jaxpr)
        if self.shapes is not None or not (work.flops or work.uncounted):
            return
        self.shapes, self._ranks = self._inputs(jaxpr, args), _ranks(jaxpr)
        if self._on_inputs is not None:
            self._on_inputs(self.shapes)

    def _note_inputs(self, jaxpr: Any, args: Sequence[Any]) -> None:
        is_known = id(jaxpr) in self._work
        self._work_of(jaxpr)
        # An evaluation takes and returns other arrays than the training, and may have fewer rows
        is_training = not is_known and _ranks(jaxpr) == self._ranks
        if self._on_inputs is not None and is_training:
            self._on_inputs(self._inputs(jaxpr, args))

    def _inputs(self, jaxpr: Any, args: Sequence[Any]) -> list[list[int]]:
        arrays = [a for a in (*args, *jaxpr.consts) if isinstance(a, jax.Array) and a.ndim]
        # The optimizer's state has the shapes of the parameters; labels can have one by chance,
        # but are whole numbers
        held = {leaf.shape for leaf in jax.tree.leaves(self._parameters())}
        inputs = [a for a in arrays if a.shape not in held or a.dtype.kind in "iu"] or arrays
        return [list(a.sharding.shard_shape(a.shape)) for a in inputs]

    def _count(self, jaxpr: Any, args: Sequence[Any]) -> None:
        self._note_inputs(jaxpr, args)
        self.work.add(self._work_of(jaxpr), times=_own_share(args))

    def _work_of(self, jaxpr: Any) -> Work:
        # The jaxpr is held, so that its number stays its own
        if id(jaxpr) not in self._work:
            self._work[id(jaxpr)] = jaxpr, work_of(jaxpr.jaxpr)
        return self._work[id(jaxpr)][1]


def _ranks(jaxpr: Any) -> object:
    """Return how many dimensions the inputs and the outputs of a compiled function have."""
    return [[getattr(a, "ndim", 0) for a in side] for side in (jaxpr.in_avals, jaxpr.out_avals)]


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
    counts: Counter[str] = Counter()
    for number, leaf in enumerate(jax.tree.leaves(parameters)):
        if leaf.is_fully_replicated:
            counts[""] += leaf.size
            continue
        for shard in leaf.addressable_shards:
            counts[f"{number} {shard.index}"] = shard.data.size
    return dict(counts)


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
    whole_checksum = checksum_of(part for leaf in whole for _, part in _parts(leaf))
    if sharded:
        parts = [part for leaf in sharded for part in _parts(leaf)]
        place = checksum_of(where.encode() for where, _ in parts)
        of_shards = checksum_of(part for _, part in parts)
        whole_checksum["shards"] = ShardChecksum(
            digest=of_shards["digest"], tensors=of_shards["tensors"], place=place["digest"]
        )
    return whole_checksum


def _parts(leaf: Any) -> list[tuple[str, bytes]]:
    """Return the different parts of an array that this process has, each with its place."""
    parts: dict[str, bytes] = {}
    for shard in leaf.addressable_shards:
        where, data = repr(shard.index), np.asarray(shard.data).tobytes()
        if parts.setdefault(where, data) != data:
            raise WorkerFailure(
                "replicas-differ",
                "the replicated parameters differ between devices of one process after training; "
                "gradients are not averaged over the ranks' devices, so these train different "
                "models",
            )
    return sorted(parts.items())
