"""Choose the cases of this session; with ``--gpus`` or ``--cpus``, make them for these counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.layout import DeviceKind, Layout
from pytest_dlperf.core.option_names import OF_PYTEST, OptionNames
from pytest_dlperf.core.place import Host, hosts_of

#: Devices of a node where the machine has no GPU to count: that of the source reports.
_REPORTS_GPUS_PER_NODE: Final = 8
#: What to do where more was asked for than there is.
ASK_FOR_LESS: Final = "ask for what is there, or leave --gpus and --cpus out"


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseRequest:
    """What the command line asks for; None where it says nothing."""

    gpus: tuple[int, ...] | None = None
    cpus: tuple[int, ...] | None = None
    size: str | None = None
    frameworks: tuple[str, ...] | None = None
    precisions: tuple[str, ...] | None = None

    @property
    def names_devices(self) -> bool:
        """Whether devices were asked for, rather than taken as they are."""
        return self.gpus is not None or self.cpus is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """What there is to run on."""

    gpus: int
    gpu_problem: str
    cores: int
    #: GPUs of a node; 0 if unknown.
    gpus_per_node: int = 0
    #: This node's number, where it starts its part of layouts of several; None for a whole host.
    node_rank: int | None = None
    #: The hosts of a session that has several; empty for this one alone.
    hosts: tuple[Host, ...] = ()
    #: Nodes that a session can have; None for as many as a scheduler gives.
    nodes: int | None = 1
    #: False if the target was not asked: then every layout may run there.
    is_known: bool = True
    #: Whether the CPU, of several hosts that of the first, has instructions for bfloat16; None if
    #: that is not known.
    cpu_has_bf16: bool | None = None

    def has_node_part(self, layout: Layout) -> bool:
        """Return whether this node is one of ``layout``'s: those are counted from node 0."""
        return (self.node_rank or 0) < layout.nodes


#: What a trace of a step stands for: nodes as those of the source reports, of any number.
TRACED: Final = Machine(
    gpus=_REPORTS_GPUS_PER_NODE,
    gpu_problem="",
    cores=1,
    gpus_per_node=_REPORTS_GPUS_PER_NODE,
    nodes=None,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Selected:
    """A case of this session; with a reason if it is deselected, or cannot run as asked."""

    case: Case
    #: Why it is deselected and counted; empty if it is selected.
    left_out: str = ""
    #: Why it is an error to have asked for it; empty if it can run.
    error: str = ""


def select(
    declared: Sequence[Case], request: CaseRequest, machine: Machine
) -> tuple[Selected, ...]:
    """Return the cases of one test, in order, those of one device before those of several.

    Device counts that were asked for replace the layout axis; else the declared layouts that
    fit the machine are taken. Raises ``UsageError`` for a count that makes no layout.
    """
    selection: dict[str, Selected] = {}
    for group in _groups(declared):
        for kind in _kinds(request, machine):
            for chosen in _select_group(group, kind, request, machine, declared):
                selected = _select_precision(chosen, request)
                earlier = selection.get(selected.case.id)
                if earlier is None or (earlier.left_out and not selected.left_out):
                    selection[selected.case.id] = selected
    order = {case.id_without_layout: index for index, case in reversed(list(enumerate(declared)))}
    return tuple(
        sorted(
            selection.values(), key=lambda s: (order[s.case.id_without_layout], s.case.world_size)
        )
    )


def fits(layout: Layout, machine: Machine, options: OptionNames = OF_PYTEST) -> str:
    """Return why ``layout`` cannot run on this machine; empty if it can.

    It advises those of the ``options`` that the user has.
    """
    if not machine.is_known:
        return ""
    if machine.hosts:
        try:
            hosts_of(layout, machine.hosts)
        except UsageError as error:
            return str(error)
    elif layout.nodes > (machine.nodes or layout.nodes) and machine.node_rank is None:
        hosts = options.typed("hosts=n1:8,n2:8")
        return (
            f"{layout} needs {layout.nodes} nodes, and this session has this host only"
            f"{hosts and f'; name the nodes with {hosts}'}"
        )
    if layout.device == "cpu":
        if layout.devices_per_node > machine.cores:
            return (
                f"{layout} needs {layout.devices_per_node} cores, "
                f"this machine lets us use {machine.cores}"
            )
        return ""
    if machine.gpu_problem:
        return f"{layout} needs a GPU, and the one here is unusable: {machine.gpu_problem}"
    if layout.devices_per_node > machine.gpus:
        there = f"this machine has {machine.gpus}"
        if machine.gpus < machine.gpus_per_node:
            there = f"CUDA_VISIBLE_DEVICES shows {machine.gpus} of this machine's "
            there += str(machine.gpus_per_node)
        return f"{layout} needs {layout.devices_per_node} GPUs, {there}"
    return ""


def without_bf16(case: Case, machine: Machine) -> str:
    """Return why ``case`` is not worth gating here: bf16 on a CPU that only imitates it.

    Empty for any other case, where the CPU is not known, and for several nodes, of which the
    first alone was asked.
    """
    on_cpu = case.layout.device == "cpu" and case.layout.nodes == 1
    if case.precision != "bf16" or not on_cpu or machine.cpu_has_bf16 is not False:
        return ""
    return "bf16 on a CPU without bf16 instructions; -k bf16 or --dlperf-precision=bf16 runs it"


def _select_precision(selected: Selected, request: CaseRequest) -> Selected:
    case = selected.case
    if request.precisions is None or case.precision in request.precisions:
        return selected
    return Selected(case=case, left_out=f"precision {case.precision} was not asked for")


def _groups(declared: Sequence[Case]) -> list[list[Case]]:
    groups: dict[tuple[str, str, str], list[Case]] = {}
    for case in declared:
        groups.setdefault((case.suite, case.framework, case.size), []).append(case)
    return list(groups.values())


def _kinds(request: CaseRequest, machine: Machine) -> tuple[DeviceKind, ...]:
    if request.names_devices:
        gpu: tuple[DeviceKind, ...] = () if request.gpus is None else ("gpu",)
        cpu: tuple[DeviceKind, ...] = () if request.cpus is None else ("cpu",)
        return gpu + cpu
    if not machine.is_known:
        return ("gpu", "cpu")
    # A GPU that is present but unusable is an error, never a fall back to the CPU.
    return ("gpu",) if machine.gpus or machine.gpu_problem else ("cpu",)


def _select_group(
    group: Sequence[Case],
    kind: DeviceKind,
    request: CaseRequest,
    machine: Machine,
    declared: Sequence[Case],
) -> Iterable[Selected]:
    first = group[0]
    if request.frameworks is not None and first.framework not in request.frameworks:
        return [
            Selected(case=c, left_out=f"framework {c.framework} was not asked for") for c in group
        ]
    sizes = {c.size for c in declared if (c.suite, c.framework) == (first.suite, first.framework)}
    size = request.size or ("full" if kind == "gpu" else "tiny")
    if first.size != size and (request.size is not None or len(sizes) > 1):
        return [Selected(case=c, left_out=f"size {c.size} was not asked for") for c in group]
    of_kind = [case for case in group if case.layout.device == kind]
    counts = request.gpus if kind == "gpu" else request.cpus
    ranks = _cpu_ranks_max(group, request, machine)
    if counts is None:
        return _declared_layouts(of_kind, group, kind, machine, ranks)
    without_layout = {case.id_without_layout: case for case in reversed(of_kind or list(group))}
    layouts = [layout_of(count, kind, machine) for count in counts]
    return [
        _asked(replace(case, layout=layout, cpu_ranks_max=ranks), machine)
        for case in reversed(without_layout.values())
        for layout in layouts
    ]


def _asked(case: Case, machine: Machine) -> Selected:
    if not machine.has_node_part(case.layout):
        return Selected(case=case, left_out=_no_node_part(case, machine))
    if case.misfit:
        return Selected(case=case, left_out=case.misfit)
    misfit = fits(case.layout, machine)
    return Selected(case=case, error=misfit and f"{misfit}; {ASK_FOR_LESS}")


def _no_node_part(case: Case, machine: Machine) -> str:
    nodes = case.layout.nodes
    needed = "only node 0" if nodes == 1 else f"nodes 0 to {nodes - 1}"
    return f"{case.layout} needs {needed}; this is node {machine.node_rank}"


def _declared_layouts(
    of_kind: Sequence[Case],
    group: Sequence[Case],
    kind: DeviceKind,
    machine: Machine,
    ranks: int,
) -> list[Selected]:
    if not of_kind:
        option = "--cpus=1" if kind == "cpu" else "--gpus=1"
        declared_kind = "GPU" if kind == "cpu" else "CPU"
        return [
            Selected(
                case=case, left_out=f"declares {declared_kind} layouts only; {option} runs it here"
            )
            for case in group
        ]
    chosen = []
    for case in group:
        sized, misfit = replace(case, cpu_ranks_max=ranks), fits(case.layout, machine)
        if case.misfit:
            chosen.append(Selected(case=sized, left_out=case.misfit))
        elif case.layout.device != kind:
            runs = "" if machine is TRACED else "; --cpus runs it here"
            reason = misfit or f"a CPU layout{runs}"
            chosen.append(Selected(case=sized, left_out=reason))
        elif not machine.has_node_part(case.layout):
            chosen.append(Selected(case=sized, left_out=_no_node_part(case, machine)))
        elif kind == "gpu" and machine.gpu_problem and case.layout.nodes == 1:
            chosen.append(Selected(case=sized, error=misfit))
        else:
            chosen.append(Selected(case=sized, left_out=misfit))
    return chosen


def _cpu_ranks_max(group: Sequence[Case], request: CaseRequest, machine: Machine) -> int:
    declared = [c.layout.devices_per_node for c in group if c.layout.device == "cpu"]
    asked = [layout_of(count, "cpu", machine).devices_per_node for count in request.cpus or ()]
    return max([1, *declared, *asked])


def layout_of(count: int, kind: DeviceKind, machine: Machine) -> Layout:
    """Return the layout of ``count`` devices: on one node, or on whole nodes if it is more."""
    if machine.hosts:
        per_node = machine.hosts[0].devices
    elif kind == "cpu":
        per_node = count
    else:
        per_node = machine.gpus_per_node or max(machine.gpus, 0) or _REPORTS_GPUS_PER_NODE
    if count <= per_node:
        return Layout(nodes=1, devices_per_node=count, device=kind)
    if machine.gpus and count <= _REPORTS_GPUS_PER_NODE and not machine.hosts:
        # More than this machine has, but one node of the usual size: say so of one node.
        return Layout(nodes=1, devices_per_node=count, device="gpu")
    if count % per_node:
        raise UsageError(
            f"--{kind}s={count}: more than one node's {per_node} {kind.upper()}s, and not whole "
            f"nodes; give a multiple of {per_node}"
        )
    return Layout(nodes=count // per_node, devices_per_node=per_node, device=kind)
