"""Parts that torch.compile is given: where their graphs break, and how often they are made again.

The steps that count run these parts as plain Python, so that their operators are seen. Two steps
more run through Dynamo, with a backend that compiles nothing.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import torch

from pytest_dlperf.core.wire_cost import PlaceCount
from pytest_dlperf.worker import compiling
from pytest_dlperf.worker.cost.places import Places
from pytest_dlperf.worker.cost.replaced import replaced
from pytest_dlperf.worker.frameworks.torch import watch


class Compiled:
    """What Dynamo does to the compiled parts of a step."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self.graph_breaks: list[PlaceCount] = []
        self.recompilations = 0
        #: Why nothing is known of compiled parts; empty otherwise.
        self.note = ""

    @contextlib.contextmanager
    def as_plain_python(self) -> Iterator[None]:
        """Leave compiled functions to Python while open."""
        with torch.compiler.set_stance("force_eager"):
            yield

    def look(self, step: Callable[[], Any]) -> None:
        """Do two steps through Dynamo, if anything is compiled."""
        if not watch.compiles():
            return
        import torch._dynamo

        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        reasons: list[Any] = getattr(torch._dynamo.utils, "graph_break_reasons", [])
        reasons.clear()
        try:
            # Where it splits graphs at buckets, it takes no tensors that are fake already
            with (
                torch._dynamo.config.patch(optimize_ddp=False),
                replaced(torch._TorchCompileInductorWrapper, "__call__", _uncompiled),
            ):
                for _ in range(2):
                    step()
        except Exception as error:  # noqa: BLE001  # of whatever Dynamo cannot follow
            self.note = (
                f"Dynamo could not follow the compiled parts ({type(error).__name__}: "
                f"{str(error).splitlines()[0][:200]}): graph breaks and recompilations are not "
                "known"
            )
            return
        counts = Counter(map(self._named, reasons))
        self.graph_breaks = [
            PlaceCount(place=place, what=what, count=count)
            for (place, what), count in sorted(counts.items())
        ]
        self.recompilations = compiling.graphs().get("recompiles", 0)

    def _named(self, reason: Any) -> tuple[str, str]:
        """Return the line of a break and the first sentence of its reason."""
        frames = reversed(reason.user_stack)
        place = next(
            (
                self._places.named(frame.filename, frame.lineno or 0)
                for frame in frames
                if self._places.is_program(frame.filename)
            ),
            "",
        )
        return place, str(reason.reason).splitlines()[0].strip()


def _uncompiled(_: Any, model: Any, __: Any) -> Any:
    """Stand for Inductor: return the graph as it is."""
    return model
