"""The table of built-in metrics: a new one is an entry here.

Every case is compared by those of ``EVERY_CASE`` that it has, and gated on those of ``METRICS``
that its marker names; a program's own metrics, by ``mark.metric`` and ``job.metric``, are gated by
the same key.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pytest_dlperf.core.errors import CaseError, UsageError
from pytest_dlperf.core.metric import Better, Figure, Gate
from pytest_dlperf.core.quantity import parse_share
from pytest_dlperf.core.run import RunSummary

#: In place of a tolerance: any change for the worse fails, and one run is enough.
COUNT: Final = "count"


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """A metric: how it is called, read and compared."""

    #: What it is, in a sentence.
    words: str
    #: Of a run, and the first and end iteration of its window; None where the run lacks it, or
    #: where it is none of a single run.
    value: Callable[[RunSummary, tuple[int, int]], float | None] = lambda _run, _window: None
    #: Empty for a count.
    unit: str = ""
    better: Better = "lower"
    #: Share up to which a change for the worse passes, unless the marker says another; None: the
    #: default of its unit.
    tolerance: float | None = None
    #: Whether it is a count, of which one more fails, and one run is enough.
    is_count: bool = False
    #: Whether it has the time of compiling in it, so that each run needs empty compile caches.
    compiles: bool = False
    #: Where it is known.
    needs: str = "a run with records of its ranks"
    #: How a first line says that it got worse: ``{change}`` is a percentage with its direction,
    #: ``{share}`` one without, ``{signed}`` one with a sign.
    worse: str = "{words} changed by {signed}"
    #: What to do where it got worse.
    remedy: str = "find what changed"


def _extra(name: str) -> Callable[[RunSummary, tuple[int, int]], float | None]:
    return lambda run, _window: run.extras.get(name)


def _p95(run: RunSummary, window: tuple[int, int]) -> float | None:
    """Return the seconds of the slowest rank's iteration at 95 % (nearest rank)."""
    steps = sorted(_step_seconds(run, window))
    return steps[math.ceil(0.95 * len(steps)) - 1] if steps else None


def _step_seconds(run: RunSummary, window: tuple[int, int]) -> tuple[float, ...]:
    """Return the seconds of each iteration of the window; none where they are relative."""
    return () if run.steps_are_relative else run.step_seconds[slice(*window)]


#: Blocks into which a window is divided, of as many iterations each, give or take one.
_BLOCKS: Final = 10


def _fastest_block(run: RunSummary, window: tuple[int, int]) -> float | None:
    """Return the mean seconds of an iteration of the slowest rank, in its fastest block."""
    steps = _step_seconds(run, window)
    if len(steps) < _BLOCKS:
        return None
    ends = [len(steps) * block // _BLOCKS for block in range(_BLOCKS + 1)]
    return min(statistics.fmean(steps[begin:end]) for begin, end in itertools.pairwise(ends))


def _per_unit(name: str) -> Callable[[RunSummary, tuple[int, int]], float | None]:
    """Return a figure of the ranks, with processes they started, over the work of all."""

    def value(run: RunSummary, _window: tuple[int, int]) -> float | None:
        spent = run.extras.get(f"{name}_of_ranks")
        if spent is None:
            return None
        return spent / (run.throughput * max(rank.seconds for rank in run.ranks))

    return value


#: Virtual machines and containers often have none.
_COUNTERS: Final = "a workload on CPUs, and a kernel that lets one count (perf_event_open)"


def _tera(value: float | None) -> float | None:
    return None if value is None else value / 1e12


#: What every case is compared by, where it has it; in the order in which a first line names what
#: got worse. Changes of rates are shares of time, as those of the throughput.
EVERY_CASE: Final[Mapping[str, Metric]] = {
    "throughput": Metric(
        words="throughput",
        value=lambda run, _window: run.throughput,
        better="higher",
        worse="{change}",
    ),
    "anchor": Metric(
        words="throughput against the anchor", better="higher", worse="{change} than the anchor"
    ),
    "peak_memory": Metric(
        words="peak memory",
        value=lambda run, _window: run.peak_memory_bytes,
        unit="bytes",
        worse="peak memory grew by {share}",
        remedy="look for a memory leak",
    ),
    "speedup": Metric(
        words="speedup",
        better="higher",
        worse="speedup fell by {share}",
        remedy="find what makes the devices wait",
    ),
    "whole_window": Metric(
        words="throughput of the whole window",
        value=lambda run, _window: run.throughput,
        better="higher",
        worse="the whole window is {change}",
    ),
    "cpu_seconds": Metric(words="CPU seconds", worse="CPU seconds grew by {share}"),
}

METRICS: Final[Mapping[str, Metric]] = {
    "compile_seconds": Metric(
        words="compile time",
        value=_extra("compile_seconds"),
        unit="s",
        compiles=True,
        needs="torch.compile or JAX",
    ),
    "cpu_per_unit": Metric(
        words="CPU time for a unit of work",
        value=_per_unit("cpu_seconds"),
        unit="s",
        needs="ranks that record their CPU time",
    ),
    "cycles_per_unit": Metric(
        words="CPU cycles for a unit of work", value=_per_unit("cycles"), needs=_COUNTERS
    ),
    "energy": Metric(
        words="energy for a unit of work",
        value=_extra("joules_per_unit"),
        unit="J",
        needs="nvidia-ml-py, a whole GPU, a window of two seconds or more, and in pairs "
        "--dlperf-pairs=alternating",
    ),
    "fastest_block": Metric(
        words="iteration in the fastest tenth of the window",
        value=_fastest_block,
        unit="s",
        needs=f"a window of {_BLOCKS} iterations or more",
    ),
    "graph_breaks": Metric(
        words="graph breaks", value=_extra("graph_breaks"), is_count=True, needs="torch.compile"
    ),
    "instructions_per_unit": Metric(
        words="CPU instructions for a unit of work",
        value=_per_unit("instructions"),
        needs=_COUNTERS,
    ),
    "recompiles": Metric(
        words="recompilations",
        value=_extra("recompiles"),
        is_count=True,
        needs="torch.compile or JAX",
    ),
    "mfu": Metric(
        words="model FLOPs utilisation",
        value=_extra("model_flops_utilisation"),
        better="higher",
        needs="PyTorch or flops_per_unit in the marker, and a GPU whose peak is known",
    ),
    "hfu": Metric(
        words="hardware FLOPs utilisation",
        value=_extra("hardware_flops_utilisation"),
        better="higher",
        needs="PyTorch or JAX, and a GPU whose peak is known",
    ),
    "reserved_memory": Metric(
        words="reserved memory", value=_extra("reserved_bytes"), unit="bytes", needs="a GPU"
    ),
    "step_p95": Metric(words="95th percentile of the steps", value=_p95, unit="s"),
    "tflops": Metric(
        words="TFLOP/s of a device",
        value=lambda run, _window: _tera(run.extras.get("flop_per_s_per_device")),
        unit="TFLOP/s",
        better="higher",
        needs="PyTorch or JAX, and matrix work that was counted",
    ),
    "time_to_first_step": Metric(
        words="time to the first step",
        value=lambda run, _window: run.time_to_first_step_s,
        unit="s",
        compiles=True,
        needs="a run with records of its ranks",
    ),
}


def words_of(name: str) -> str:
    """Return what people read for a metric: a user's own has its name."""
    return metric_of(name).words


def metric_of(name: str) -> Metric:
    """Return the row of a metric; a user's own is as one that no row says more of."""
    return METRICS.get(name) or EVERY_CASE.get(name) or Metric(words=name)


def measures_compiling(gates: Iterable[Gate]) -> bool:
    """Return whether a metric among ``gates`` has the time of compiling in it."""
    return any(gate.name in METRICS and METRICS[gate.name].compiles for gate in gates)


def missing(gates: Iterable[Gate], found: Collection[str]) -> dict[str, str]:
    """Return the built-in metrics among ``gates`` that ``found`` lacks, and what each needs."""
    names = (gate.name for gate in gates if gate.name in METRICS)
    return {name: METRICS[name].needs for name in names if name not in found}


def gate_of(gate: Gate) -> Gate:
    """Return ``gate`` with what the metric itself says where the marker says nothing."""
    known = METRICS.get(gate.name)
    if gate.is_count is not None:
        return gate
    return Gate(
        name=gate.name,
        tolerance=None if known is None else known.tolerance,
        is_count=known is not None and known.is_count,
    )


def built_in(
    gates: tuple[Gate, ...], run: RunSummary, window: tuple[int, int]
) -> dict[str, Figure]:
    """Return the built-in metrics of a run that a case is gated on, where the run has them.

    Raises ``CaseError`` for a value that is not finite.
    """
    found = {}
    for name in (gate.name for gate in gates if gate.name in METRICS):
        metric = METRICS[name]
        value = metric.value(run, window)
        if value is None:
            continue
        if not math.isfinite(value):
            raise CaseError(f"metric {name}: {value} is not a finite number")
        found[name] = Figure(value=value, unit=metric.unit, better=metric.better)
    return found


def gates_of(value: Any) -> tuple[Gate, ...]:
    """Return what the marker's ``metrics`` gates: names, or names with their tolerances.

    A tolerance is a share (``"10%"``), ``"count"``, or None. Raises ``UsageError``.
    """
    if isinstance(value, list | tuple) and all(isinstance(name, str) for name in value):
        value = dict.fromkeys(value)
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise UsageError(
            f"metrics {value!r}: give a list of names, or a mapping such as "
            '{"compile_seconds": "10%", "graph_breaks": "count"}'
        )
    return tuple(_gate(name, given) for name, given in value.items())


def _gate(name: str, given: Any) -> Gate:
    if name in EVERY_CASE:
        raise UsageError(
            f"metric {name}: every case that has it is compared by it already; leave it out of "
            "metrics"
        )
    if given is None:
        return Gate(name=name)
    if given == COUNT:
        return Gate(name=name, is_count=True)
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        raise UsageError(
            f'metric {name}: {given!r} is not a tolerance; give "10%", "count" or None'
        )
    share = parse_share(given, what=f"metric {name}")
    if share >= 1:
        raise UsageError(f"metric {name}: tolerance {share:.0%} must be below 100 %")
    return Gate(name=name, tolerance=share, is_count=False)
