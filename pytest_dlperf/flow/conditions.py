"""The conditions that two measurements must share to be compared; requirements of a target."""

from __future__ import annotations

import shlex

from pytest_dlperf.cases.possible import check_version
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import CaseError, NotRunError
from pytest_dlperf.core.measurement import Conditions
from pytest_dlperf.core.wire_records import ProbeAnswer, RunFacts
from pytest_dlperf.launch.base import Target
from pytest_dlperf.launch.launchers import launcher_name


def conditions_of(
    case: Case, facts: RunFacts, target: Target, *, hardware: str, host_sharing: bool
) -> Conditions:
    """Return the conditions of runs of ``case`` in ``target`` whose ranks reported ``facts``."""
    model = facts.get("model", {})
    flops = model.get("flops_by_dtype", {})
    dtype = max(flops, key=lambda name: flops[name]) if flops else "unknown"
    options = dict(case.options)
    if case.command:
        options["command"] = shlex.join(case.command_line)
    # A program's marks may say another work than the marker, as for batches that are packed
    work = case.work if case.command else facts.get("work")
    if work is not None and work != case.batch_size_per_device:
        options["work"] = int(work) if float(work).is_integer() else work
    timing: str | None = facts.get("framework", {}).get("timing")
    if case.layout.device == "gpu" and timing == "host clock":
        # Steps that wait for each other are slower than those that queue.
        options["timing"] = timing
    read = facts.get("data", {})
    if "workers" in read:
        options["data_workers"] = read["workers"]
    return Conditions(
        window=case.protocol.window,
        launcher=launcher_name(case),
        world_size=case.world_size,
        batch_size_per_device=case.batch_size_per_device,
        unit=facts.get("unit", case.unit),
        dtype=f"declared {case.precision}" if case.command else dtype,
        data="own" if case.command else read.get("kind", "synthetic"),
        parameter_count=model.get("parameter_count"),
        input_shapes=tuple(tuple(shape) for shape in model.get("input_shapes") or ()),
        options=options,
        threads_per_rank=target.threads_per_rank,
        host_sharing=host_sharing,
        hardware=hardware,
        version=case.version,
    )


def check_probed(case: Case, answer: ProbeAnswer, where: str) -> None:
    """Raise ``NotRunError`` or ``CaseError`` if the target lacks what ``case`` needs.

    ``answer`` is that of a probe; ``where`` names the target, for people.
    """
    version = answer["framework_version"]
    if version is None:
        raise NotRunError(f"{case.framework} is not installed {where} ({answer['executable']})")
    if not case.command:
        keras_2 = answer.get("keras", "3").startswith("2")
        check_version(case.framework, version, where=where, keras_2=keras_2)
    needed = case.layout.devices_per_node
    if case.layout.device == "gpu" and answer["gpus"] < needed:
        raise CaseError(
            f"{case.id}: {case.framework} {version} {where} sees {answer['gpus']} GPUs, "
            f"{case.layout} needs {needed}; a container is given them by --gpus all, and a build "
            "without CUDA sees none"
        )
