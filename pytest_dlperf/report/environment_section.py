"""The environments of outcomes, as the first sections of the source reports list them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pytest_dlperf.core.codec import encode
from pytest_dlperf.core.measurement import Environment
from pytest_dlperf.core.outcome import Outcome

#: What stands for a value that was not recorded.
UNKNOWN: Final = "unknown"
#: Fields of the case itself that are no row of a table.
CASE_FIELDS: Final = ("framework", "precision", "size", "suite", "launcher", "parallel", "version")


def fields_of(outcome: Outcome) -> dict[str, str]:
    """Return what ``outcome`` records, by name; what is unknown is absent.

    A name that several parts have is the one of the first: case, software, machine,
    environment, workload options, conditions.
    """
    case, environment, measurement = outcome.case, outcome.environment, outcome.measurement
    values: dict[str, object] = {"commit": outcome.commit or None}
    if measurement is not None:
        values |= encode(measurement.conditions)
    values |= dict(case.options)
    if environment is not None:
        values |= {
            "machine_class": environment.machine_class,
            "node": environment.node,
            **environment.machine,
            **environment.software,
        }
    # Where the marker does not say how a case is parallel, an option of that name may
    values |= {name: value for name in CASE_FIELDS if (value := getattr(case, name)) != ""}
    return {
        name: str(value)
        for name, value in values.items()
        if value is not None and name not in {"world_size", "batch_size_per_device"}
    }


def field_names(outcomes: Iterable[Outcome]) -> tuple[str, ...]:
    """Return the names that any of ``outcomes`` records, sorted."""
    return tuple(sorted({name for outcome in outcomes for name in fields_of(outcome)}))


#: The lines of the reports, in their order, and where an environment has them.
_MACHINE: Final = {"OS": "os", "GPU": "gpu", "CPU": "cpu", "memory": "memory"}
_SOFTWARE: Final = {
    "driver": "driver",
    "image": "image",
    "CUDA": "cuda",
    "cuDNN": "cudnn",
    "NCCL": "nccl",
}
_LINES: Final = (
    *("OS", "GPU", "CPU", "driver", "memory", "image"),
    *("framework", "CUDA", "cuDNN", "NCCL"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class EnvironmentBlock:
    """One environment, the cases that ran in it, and what is known of it."""

    machine_classes: tuple[str, ...]
    nodes: tuple[str, ...]
    case_ids: tuple[str, ...]
    #: The lines of the reports; None for what is not known.
    facts: Mapping[str, str | None]
    #: What else was recorded.
    others: Mapping[str, str]


def environment_blocks(outcomes: Iterable[Outcome]) -> tuple[EnvironmentBlock, ...]:
    """Return one block for every distinct environment of ``outcomes``, in their order.

    A case that never started records less; it is listed with the environment that it fits.
    """
    groups: list[_Group] = []
    # Those that know most first, so that what knows less finds where it belongs
    with_environment = [o for o in outcomes if o.environment is not None]
    for outcome in sorted(with_environment, key=lambda o: -len(_recorded(o))):
        recorded = _recorded(outcome)
        group = next((g for g in groups if recorded.items() <= g.recorded.items()), None)
        if group is None:
            group = _Group(recorded)
            groups.append(group)
        group.outcomes.append(outcome)
    order = {id(outcome): index for index, outcome in enumerate(with_environment)}
    groups.sort(key=lambda group: min(order[id(outcome)] for outcome in group.outcomes))
    return tuple(group.block() for group in groups)


class _Group:
    """Outcomes of one environment."""

    def __init__(self, recorded: Mapping[tuple[str, str], str]) -> None:
        self.recorded = recorded
        self.outcomes: list[Outcome] = []

    def block(self) -> EnvironmentBlock:
        environments = [o.environment for o in self.outcomes if o.environment is not None]
        fullest = max(environments, key=lambda e: len(e.software) + len(e.machine))
        frameworks = {o.case.framework for o in self.outcomes} & set(fullest.software)
        return EnvironmentBlock(
            machine_classes=tuple(dict.fromkeys(e.machine_class for e in environments)),
            nodes=tuple(dict.fromkeys(e.node for e in environments)),
            case_ids=tuple(dict.fromkeys(o.case.id for o in self.outcomes)),
            facts=_facts(fullest, sorted(frameworks)),
            others=_other_facts(fullest, frameworks),
        )


def _recorded(outcome: Outcome) -> dict[tuple[str, str], str]:
    environment = outcome.environment
    if environment is None:
        return {}
    software = {("software", name): value for name, value in environment.software.items()}
    return software | {("machine", name): value for name, value in environment.machine.items()}


def _facts(environment: Environment, frameworks: list[str]) -> dict[str, str | None]:
    names = [f"{name} {environment.software[name]}" for name in frameworks]
    facts = {line: environment.machine.get(name) for line, name in _MACHINE.items()}
    facts |= {line: environment.software.get(name) for line, name in _SOFTWARE.items()}
    facts["framework"] = ", ".join(names) or None
    return {line: facts[line] for line in _LINES}


def _other_facts(environment: Environment, frameworks: set[str]) -> dict[str, str]:
    named = frameworks | set(_SOFTWARE.values())
    machine = {k: v for k, v in environment.machine.items() if k not in _MACHINE.values()}
    return machine | {k: v for k, v in environment.software.items() if k not in named}
