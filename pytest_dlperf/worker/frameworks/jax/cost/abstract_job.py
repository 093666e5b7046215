"""The job of a trace: one process that drives all devices, and puts arrays on none of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

from pytest_dlperf.worker.frameworks.jax.job import JaxJob


@dataclass(kw_only=True)
class AbstractJob(JaxJob):
    """A job whose arrays are placed by operations that are traced, not done."""

    def data_parallel(self, module: Any, **options: Any) -> Any:
        """Return ``module``, a tree of arrays, whole on every device."""
        if options:
            raise TypeError(f"JAX wraps no model; it takes no {sorted(options)}")
        return jax.device_put(module, NamedSharding(self.mesh, PartitionSpec()))

    def shard(self, tree: Any) -> Any:
        """Return ``tree``, the batches of all replicas after each other, a part on each."""
        return jax.device_put(tree, NamedSharding(self.mesh, PartitionSpec("dp")))
