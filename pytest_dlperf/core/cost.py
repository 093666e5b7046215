"""The cost of a training step: its figures, how each is called, and two costs side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.metric import Gate
from pytest_dlperf.core.quantity import parse_share

#: In place of the machine class: a cost is of no machine.
COST_CLASS: Final = "cost"
#: Codes of what a comparison of costs finds.
COSTS_MORE: Final = "costs-more"
COSTS_LESS: Final = "costs-less"
COSTS_SAME: Final = "costs-same"
CostUnit = Literal["", "FLOP", "bytes"]


@dataclass(frozen=True, kw_only=True, slots=True)
class CostMeaning:
    """A figure of a cost: how it is called, and what it counts."""

    words: str
    unit: CostUnit
    counts: str


#: Each figure of a cost, in the order in which a sentence names them: what causes others first.
COST_FIGURES: Final[Mapping[str, CostMeaning]] = {
    "host_waits": CostMeaning(
        words="host waits",
        unit="",
        counts="places of the step where the program needs a value of the device, as by "
        "`.item()`; in JAX calls of functions of the host, as by `io_callback`, and "
        "`block_until_ready`",
    ),
    "graph_breaks": CostMeaning(
        words="graph breaks", unit="", counts="graph breaks of compiled parts"
    ),
    "recompilations": CostMeaning(
        words="recompilations", unit="", counts="compilations of parts that were compiled before"
    ),
    "regrouped": CostMeaning(
        words="collectives among other ranks",
        unit="",
        counts="collectives that have other ranks than before, where they are not more; which "
        "ranks are nearer is not known, so that any change counts",
    ),
    "collectives": CostMeaning(
        words="collectives", unit="", counts="collectives that a rank takes part in"
    ),
    "collective_bytes": CostMeaning(
        words="collective traffic",
        unit="bytes",
        counts="bytes that a rank sends at least: of n ranks (n - 1) / n of the tensor for "
        "all-gather, reduce-scatter and all-to-all, twice that for all-reduce",
    ),
    "flops": CostMeaning(
        words="FLOPs",
        unit="FLOP",
        counts="floating-point operations of products, by dtype; what moves to a narrower dtype "
        "is less, and to a wider one more",
    ),
    "parameters": CostMeaning(
        words="parameters", unit="", counts="parameters that a rank holds, by dtype"
    ),
    "peak_memory": CostMeaning(
        words="peak memory",
        unit="bytes",
        counts="bytes of all tensors that are alive at once, at their peak, without fusion",
    ),
    "launches": CostMeaning(
        words="launches",
        unit="",
        counts="operators that start work on a device, without fusion: all but views",
    ),
    "memory_traffic": CostMeaning(
        words="memory traffic",
        unit="bytes",
        counts="bytes that launched operators read and write, each by itself, without fusion",
    ),
}


def meaning_of(name: str) -> CostMeaning:
    """Return what a figure is; one that only another version knows is called by its name."""
    return COST_FIGURES.get(name, CostMeaning(words=name, unit="", counts=""))


@dataclass(frozen=True, kw_only=True, slots=True)
class CostFigure:
    """One figure of one rank, now and before."""

    #: A row of ``COST_FIGURES``.
    name: str
    #: Of FLOPs and parameters; else empty.
    dtype: str = ""
    rank: int = 0
    now: int
    #: None where there is nothing to compare with.
    before: int | None = None
    #: What it has more, or less, than before; what changed its dtype counts once.
    increase: int = 0
    #: ``increase`` as a share of the figure before, of all dtypes; None for a figure that was 0.
    share: float | None = None
    #: The share up to which more passes.
    allowed: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class CostChange:
    """What changed a figure, at one place of the model; the most first."""

    #: Those of the figure that it changed.
    name: str
    dtype: str
    rank: int
    #: Path of the module, or the line of the program; empty outside of all modules.
    path: str
    #: ``forward`` ..., empty where there is none.
    phase: str
    #: The operator, the kind of collective or of memory, or what waits.
    what: str
    calls_before: int
    calls_now: int
    #: Change of the figure by it.
    increase: int
    #: How many layers a path with ``*`` stands for; 0 where that is not known.
    layers: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class ModuleCost:
    """What one module asks for, without the modules within it; all ranks of a trace together."""

    path: str
    flops: int
    memory_traffic: int
    #: None where the framework's trace does not count them.
    launches: int | None
    #: Bytes that are alive at the peak; None as for launches.
    peak_bytes: int | None
    #: As those above, before; all None where there is nothing to compare with.
    flops_before: int | None = None
    memory_traffic_before: int | None = None
    launches_before: int | None = None
    peak_bytes_before: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PredictionError:
    """A measured step of the device, and what is predicted of it."""

    case_id: str
    machine_class: str
    predicted_ms: float
    measured_ms: float

    @property
    def share(self) -> float:
        """What is predicted too much, as a share of what was measured; too little is below 0."""
        return self.predicted_ms / self.measured_ms - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class PredictedTime:
    """The time of a step on a device, by its data sheet; nobody judges it."""

    #: A row of ``DEVICE_RATES``.
    device: str
    #: Of the slowest rank that was traced; None where ``problem`` says why.
    step_ms: float | None = None
    #: Of the step before; None where there is nothing to compare with.
    before_ms: float | None = None
    #: Of operators that their operations bound, and of those that their bytes bound.
    products_ms: float = 0.0
    memory_ms: float = 0.0
    #: Of all collectives, and of those that no other work follows.
    collectives_ms: float = 0.0
    exposed_ms: float = 0.0
    problem: str = ""
    #: Of the measured baselines of this device, those whose cost is stored.
    errors: tuple[PredictionError, ...] = ()
    #: Measured baselines of this device without a stored cost.
    unchecked: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class CostComparison:
    """The cost of a case, beside the one that it is compared with."""

    framework: str
    #: Without what names a build, such as ``+cpu``.
    framework_version: str
    world_size: int
    #: Of the whole model; None where it declares none.
    parameters: int | None
    figures: tuple[CostFigure, ...]
    changes: tuple[CostChange, ...] = ()
    modules: tuple[ModuleCost, ...] = ()
    #: Bytes at the peak by what they are held for, of the rank with the highest peak; empty where
    #: the framework's trace does not count them.
    peak_by_kind: Mapping[str, int]
    #: What the trace cannot see of this case.
    notes: tuple[str, ...] = ()
    elapsed_s: float = 0.0
    #: None where no device was named.
    predicted: PredictedTime | None = None

    @property
    def has_before(self) -> bool:
        """Whether it was compared with another one."""
        return any(figure.before is not None for figure in self.figures)


def allowances_of(value: Any) -> tuple[Gate, ...]:
    """Return how much more of each figure passes, as the marker's ``cost`` says it.

    A mapping of figures to shares, such as ``{"peak_memory": "1%"}``. Raises ``UsageError``.
    """
    names = ", ".join(COST_FIGURES)
    if not isinstance(value, Mapping):
        raise UsageError(
            f'cost {value!r}: give a mapping of figures to shares, such as {{"peak_memory": "1%"}}'
            f"; figures are {names}"
        )
    for name, share in value.items():
        if name not in COST_FIGURES:
            raise UsageError(f"cost: unknown figure {name!r}; known: {names}")
        if isinstance(share, bool) or not isinstance(share, str | int | float):
            raise UsageError(f'cost: {name}: {share!r} is not a share; give for instance "1%"')
    return tuple(
        Gate(name=name, tolerance=parse_share(share, what=f"cost: {name}"))
        for name, share in value.items()
    )


def public_version(version: str) -> str:
    """Return a version without what names a build: ``2.13.0`` for ``2.13.0+cpu`` (PEP 440)."""
    return version.partition("+")[0]
