"""Where the step itself, outside of what is compiled, waits until its devices are done."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

import jax

from pytest_dlperf.worker.cost.places import Places
from pytest_dlperf.worker.cost.replaced import given, replaced


class HostWaits:
    """Counts waits by the line that waits.

    Who needs a number, as by ``float(loss)``, has none in a trace: that is an error of JAX. A wait
    that asks for no number is none to JAX, and is seen here.
    """

    def __init__(self, places: Places) -> None:
        self._places = places
        #: By line and by what waits.
        self.counts: Counter[tuple[str, str]] = Counter()

    def begin(self) -> None:
        """Begin the step that counts."""
        self.counts.clear()

    @contextlib.contextmanager
    def follow(self) -> Iterator[None]:
        """Follow waits while open; what is got of a device has no numbers."""

        def wait(tree: Any) -> Any:
            self._add("block_until_ready")
            return tree

        def get(tree: Any) -> Any:
            self._add("device_get")
            return tree

        def barrier() -> None:
            self._add("effects_barrier")

        with (
            given(jax.core.Tracer, "block_until_ready", wait),
            replaced(jax, "block_until_ready", wait),
            replaced(jax, "device_get", get),
            replaced(jax, "effects_barrier", barrier),
        ):
            yield

    def _add(self, what: str) -> None:
        self.counts[self._places.here(), what] += 1
