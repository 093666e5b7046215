"""Where the host needs a number of the device, and what it is given so that the step goes on."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import torch
from torch._subclasses.fake_tensor import FakeTensor

from pytest_dlperf.core.wire_cost import PlaceCount
from pytest_dlperf.worker.cost.places import Places
from pytest_dlperf.worker.cost.replaced import replaced
from pytest_dlperf.worker.frameworks.torch.cost.fake_device import is_on_device
from pytest_dlperf.worker.frameworks.torch.cost.storages import key_of

#: Operators whose result has as many rows as the data say.
BY_DATA: Final = frozenset({"nonzero", "masked_select"})


class HostWaits:
    """Counts waits by the line that waits."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._counts: Counter[tuple[str, str]] = Counter()
        #: Sentences about numbers that were made up and may matter.
        self.notes: set[str] = set()
        self._zeros: dict[int, torch.Tensor] = {}

    @contextlib.contextmanager
    def follow(self) -> Iterator[None]:
        """Follow ``tolist`` too while open, which is one wait for all numbers."""
        waits = self

        def tolist(tensor: Any) -> Any:
            if not is_on_device(tensor):
                return _nested(tuple(tensor.shape), 0)
            return _nested(tuple(tensor.shape), waits.value(tensor, ".tolist()"))

        with replaced(FakeTensor, "tolist", tolist):
            yield

    def begin(self) -> None:
        """Begin the step that counts."""
        self._counts.clear()

    def add(self, what: str) -> str:
        """Count a wait of the line that runs now; return that line."""
        place = self._places.here()
        self._counts[place, what] += 1
        return place

    def is_zero(self, tensor: torch.Tensor) -> None:
        """Say that ``tensor`` holds 0: that no gradient overflows, so that updates are made."""
        self._zeros[key_of(tensor)] = tensor

    def value(self, tensor: torch.Tensor, what: str = ".item()") -> Any:
        """Return what the host is given for the number in ``tensor``.

        The number itself where it is known; else False, 1.0, or 1, of which the whole number is
        noted, since shapes may follow from it. A number of the host is no wait.
        """
        waits = is_on_device(tensor)
        place = self.add(what) if waits else ""
        constant = getattr(tensor, "constant", None)
        if constant is not None:
            with torch.utils._python_dispatch._disable_current_modes():
                return constant.item()
        if tensor.dtype == torch.bool:
            return False
        if key_of(tensor) in self._zeros:
            return 0.0
        if tensor.dtype.is_complex:
            return complex(1.0)
        if tensor.dtype.is_floating_point:
            return 1.0
        if waits and self._places.is_own_call():
            self.notes.add(
                f"{place} reads a whole number of the device, and was given 1: what it decides, "
                "such as a shape, is another in a real step"
            )
        return 1

    def cost(self) -> list[PlaceCount]:
        """Return the waits since ``begin``, in the order of their lines."""
        return [
            PlaceCount(place=place, what=what, count=count)
            for (place, what), count in sorted(self._counts.items())
        ]


def _nested(shape: tuple[int, ...], value: Any) -> Any:
    if not shape:
        return value
    return [_nested(shape[1:], value) for _ in range(shape[0])]
