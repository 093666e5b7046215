"""The bytes of all tensors of a step that are alive at once, and whose they are at the peak."""

from __future__ import annotations

import contextlib
import weakref
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from pytest_dlperf.core.wire_cost import MEMORY_KINDS, LiveCost, MemoryCost
from pytest_dlperf.worker.cost.replaced import wrapped
from pytest_dlperf.worker.frameworks.torch.cost.fake_device import is_on_device
from pytest_dlperf.worker.frameworks.torch.cost.storages import key_of, storage_of


@dataclass(eq=False)
class _Storage:
    bytes: int
    path: str
    kind: str
    reference: Any = None


class Memory:
    """Follows the storages of tensors on the device, by weak references to them."""

    def __init__(self) -> None:
        self._alive: dict[int, _Storage] = {}
        #: Since ``begin``: a storage, and by how many bytes it grew.
        self._events: list[tuple[_Storage, int]] = []
        self._first: list[tuple[_Storage, int]] = []

    @contextlib.contextmanager
    def follow(self) -> Iterator[None]:
        """Follow storages whose sizes change, too, while open: FSDP frees parameters so."""

        def wrap(resize: Any) -> Any:
            def resized(storage: Any, size: int) -> Any:
                result = resize(storage, size)
                known = self._alive.get(storage._cdata)
                if known is not None:
                    self._grow(known, size - known.bytes)
                return result

            return resized

        with wrapped(torch.UntypedStorage, "resize_", wrap):
            yield

    def begin(self) -> None:
        """Begin the step whose peak counts."""
        self._events = []
        self._first = [(storage, storage.bytes) for storage in self._alive.values()]

    def add(self, tensor: torch.Tensor, path: str, kind: str) -> None:
        """Follow the storage of ``tensor``, if it is a new one, made at ``path`` for ``kind``."""
        if not is_on_device(tensor):
            return
        storage = storage_of(tensor)
        if storage is None:
            return
        key = storage._cdata
        if key in self._alive:
            return
        made = _Storage(0, path, kind)
        self._alive[key] = made
        made.reference = weakref.ref(storage, lambda _: self._free(key, made))
        self._grow(made, storage.nbytes())

    def tag(self, tensor: torch.Tensor | None, kind: str, path: str) -> None:
        """Say what ``tensor`` is held for, and by which module."""
        local = getattr(tensor, "_local_tensor", tensor)
        if not isinstance(local, torch.Tensor) or not is_on_device(local):
            return
        storage = self._alive.get(key_of(local))
        if storage is not None:
            storage.kind, storage.path = kind, path

    def cost(self) -> MemoryCost:
        """Return the peak since ``begin``, and what is alive then."""
        sizes: dict[_Storage, int] = dict(self._first)
        now = peak = sum(sizes.values())
        place = 0
        for index, (_, growth) in enumerate(self._events):
            now += growth
            if now > peak:
                peak, place = now, index + 1
        for storage, growth in self._events[:place]:
            sizes[storage] = sizes.get(storage, 0) + growth
        live: Counter[tuple[str, str]] = Counter()
        for storage, size in sizes.items():
            live[storage.path, storage.kind] += size
        kinds = dict.fromkeys(MEMORY_KINDS, 0)
        for (_, kind), size in live.items():
            kinds[kind] += size
        at_peak = sorted((-size, path, kind) for (path, kind), size in live.items() if size)
        return MemoryCost(
            peak_bytes=peak,
            by_kind=kinds,
            at_peak=[LiveCost(path=path, kind=kind, bytes=-size) for size, path, kind in at_peak],
        )

    def _grow(self, storage: _Storage, growth: int) -> None:
        storage.bytes += growth
        self._events.append((storage, growth))

    def _free(self, key: int, storage: _Storage) -> None:
        if self._alive.get(key) is storage:
            del self._alive[key]
        self._grow(storage, -storage.bytes)
