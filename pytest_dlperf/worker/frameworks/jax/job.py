"""What a JAX workload is given.

Where JAX has no counterpart of a word in ``Job``, this is what the word means:

- Functions are pure, and arrays do not change: the state of a training goes from one call to the
  next, and may be donated. So the parameters are declared by a function that returns those of now.
- ``mesh`` has every device of every process; ``data_parallel`` puts a whole copy on each, and
  ``shard`` a part of the batch. Gradients are averaged by XLA, where the mean of the loss is over
  the whole batch, or by ``jax.lax.pmean`` in ``jax.shard_map``.
- There is no autocast: ``cast`` gives arrays the type of the precision.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from pytest_dlperf.worker.job import Job

#: What a precision computes in; float32 where none is given.
_COMPUTED: Final = {"bf16": jnp.bfloat16, "pure_fp16": jnp.float16}


@dataclass(kw_only=True)
class JaxJob(Job):
    """A rank of a JAX training: one process, which drives one device or several."""

    half_by: ClassVar[str] = "Give parameters and batch their type with job.cast(tree)"

    #: Returns the parameters of now, a tree of arrays; None until they are declared.
    declared: Callable[[], Any] | None = None

    @functools.cached_property
    def mesh(self) -> Mesh:
        """All devices: ``dp``, then those of ``pp``, ``cp``, ``tp`` in use."""
        names, lengths = zip(*self.parallel.dims(self.world_size), strict=True)
        return Mesh(np.array(jax.devices()).reshape(lengths), names)

    @property
    def compute_dtype(self) -> Any:
        """The dtype of the precision's matrix work."""
        return _COMPUTED.get(self.precision, jnp.float32)

    def cast(self, tree: Any) -> Any:
        """Return ``tree`` with its floating-point arrays in ``compute_dtype``."""

        def cast(leaf: Any) -> Any:
            is_float = jnp.issubdtype(leaf.dtype, jnp.floating)
            return leaf.astype(self.compute_dtype) if is_float else leaf

        return jax.tree.map(cast, tree)

    def generator(self) -> Any:
        """Return a key; ranks draw different numbers."""
        return jax.random.fold_in(jax.random.key(self.seed), self.replica)

    def data_parallel(self, module: Any, **options: Any) -> Any:
        """Return ``module``, a tree of arrays, whole on every device, as rank 0 has it.

        It is to be declared by ``replicated`` or ``step_of``: the parameters of later steps are
        other arrays.
        """
        if options:
            raise TypeError(f"JAX wraps no model; it takes no {sorted(options)}")
        sharding = NamedSharding(self.mesh, PartitionSpec())
        if jax.process_count() > 1:
            from jax.experimental import multihost_utils

            module = multihost_utils.broadcast_one_to_all(module)
        return jax.tree.map(lambda leaf: _placed(leaf, sharding), module)

    def shard(self, tree: Any) -> Any:
        """Return ``tree``, the batches of this rank's replicas after each other, on its devices.

        The first dimension of its arrays is ``local_batch_size``; ranks that share a batch give
        the same.
        """
        sharding = NamedSharding(self.mesh, PartitionSpec("dp"))
        return jax.tree.map(
            lambda leaf: jax.make_array_from_process_local_data(sharding, np.asarray(leaf)), tree
        )

    @property
    def local_batch_size(self) -> int:
        """Entries of the batches of all replicas that this rank has a part of."""
        return self.rows_of_batch

    def replicated(self, parameters: Callable[[], Any] | Iterable[Any]) -> None:
        """Declare a function that returns the parameters of now, a tree of arrays.

        Arrays that are whole must be equal on all devices at the end, and so must shards that
        several devices hold. ``[]`` where there are none. Raises ``TypeError`` for arrays: those
        of the end are others.
        """
        if callable(parameters):
            self.declared = parameters
        elif jax.tree.leaves(parameters):
            raise TypeError(
                "job.replicated takes a function that returns the parameters of now, as in "
                "job.replicated(lambda: state.params): in JAX each step makes other arrays"
            )
        else:
            self.declared = list

    def step_of(
        self,
        train: Callable[..., tuple[Any, Any]],
        state: Any,
        *batch: Any,
        parameters: Callable[[Any], Any],
    ) -> Callable[[], Any]:
        """Return the step that ``build`` returns: ``state, loss = train(state, *batch)``.

        ``train`` may donate ``state``; ``parameters`` returns the parameters of a state, which are
        declared.
        """
        held = [state]

        def step() -> Any:
            held[0], loss = train(held[0], *batch)
            return loss

        self.replicated(lambda: parameters(held[0]))
        return step

    def autocast(self) -> NoReturn:
        """Raise ``TypeError``: JAX has none."""
        raise TypeError("JAX has no autocast; give arrays their type with job.cast(tree)")

    def backward(
        self,
        loss: Any,
        optimizer: Any,
        *,
        clip_norm: float | None = None,
        parameters: Iterable[Any] | None = None,
    ) -> NoReturn:
        """Raise ``TypeError``: JAX differentiates functions."""
        raise TypeError("a loss of JAX has no backward pass; use jax.value_and_grad")


def _placed(leaf: Any, sharding: NamedSharding) -> Any:
    # Every process gives its own copy, so that no device of another is asked for one.
    value = np.asarray(leaf)
    return jax.make_array_from_callback(value.shape, sharding, lambda index: value[index])
