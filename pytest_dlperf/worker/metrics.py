"""A rank's own metrics: numbers that a program reports, and the seconds of its phases."""

from __future__ import annotations

import contextlib
import math
import re
import time
from collections.abc import Iterator
from typing import Any, Final

from pytest_dlperf.core.wire_records import MetricsRecord, MetricValue

_NAME: Final = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)


class MetricBook:
    """The metrics that this rank reported, by name.

    A metric is the mean of its calls in the measured window; where it has none there, the mean
    of those before.
    """

    def __init__(self) -> None:
        self._declared: dict[str, tuple[str, str]] = {}
        self._before: dict[str, list[Any]] = {}
        self._now = self._before

    def add(self, name: str, value: Any, better: str, unit: str) -> None:
        """Keep a value; raise ``ValueError`` for a name or direction that cannot be meant.

        And where the name was used with another unit or direction before.
        """
        if not _NAME.fullmatch(name):
            raise ValueError(f"metric {name!r}: use lower-case letters, digits and _ only")
        if better not in {"lower", "higher"}:
            raise ValueError(f'metric {name}: better={better!r}; give "lower" or "higher"')
        before = self._declared.setdefault(name, (unit, better))
        if before != (unit, better):
            raise ValueError(
                f"metric {name}: unit {unit!r}, better {better!r}, and before it had unit "
                f"{before[0]!r}, better {before[1]!r}; give two metrics two names"
            )
        self._now.setdefault(name, []).append(kept_number(value))

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Report the seconds of the block as ``<name>_seconds``; the device is not waited for."""
        began_s = time.perf_counter()
        yield
        self.add(f"{name}_seconds", time.perf_counter() - began_s, "lower", "s")

    def start_window(self) -> None:
        """Begin the measured window."""
        self._now = {}

    def record(self) -> MetricsRecord:
        """Return the metrics until now; raise ``ValueError`` for a value that is not finite."""
        values: dict[str, MetricValue] = {}
        for name, (unit, better) in self._declared.items():
            numbers = [float(one) for one in self._now.get(name) or self._before[name]]
            mean = math.fsum(numbers) / len(numbers)
            if not math.isfinite(mean):
                raise ValueError(f"metric {name}: {mean} is not a finite number")
            values[name] = MetricValue(value=mean, calls=len(numbers), unit=unit, better=better)
        return MetricsRecord(values=values)


def kept_number(value: Any) -> Any:
    """Return a number; or a copy of a tensor of a GPU, which nobody waits for within the window.

    The copy has no graph, and is not the memory that the next step may write.
    """
    alone = value.detach() if hasattr(value, "detach") else value
    # Paddle's tensors know a place, those of PyTorch and TensorFlow a device
    where = str(getattr(alone, "place", None) or getattr(alone, "device", "cpu"))
    if "cpu" in where.lower():
        return float(alone)
    return alone.clone() if hasattr(alone, "clone") else alone
