"""Judge cases by the cost of a step, counted on any machine (``--dlperf-cost``).

One process traces a case, or one for each arm; no device is needed, no host is held, and nothing
is timed.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from pytest_dlperf.core.arm import ReadyArm, Reported
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.cost import CostComparison
from pytest_dlperf.core.errors import CaseError, DlperfError, NotRunError
from pytest_dlperf.core.finding import Finding, Weight
from pytest_dlperf.core.outcome import Against
from pytest_dlperf.core.run import LaunchPlan
from pytest_dlperf.core.verdict import Judgement
from pytest_dlperf.core.wire_cost import CostRecord
from pytest_dlperf.core.wire_records import FrameworkRecord, RunFacts
from pytest_dlperf.flow.looks import Measured
from pytest_dlperf.flow.prediction_errors import prediction_errors
from pytest_dlperf.flow.watcher import STARTING
from pytest_dlperf.judge.cost import cost_comparison, cost_findings, differing_conditions
from pytest_dlperf.judge.predicted_time import predicted_time
from pytest_dlperf.judge.verdict import judgement_by
from pytest_dlperf.launch.process.execute import execute
from pytest_dlperf.launch.trace import make_trace_plan
from pytest_dlperf.measure.cost import cost_in, cost_of, trace_progress
from pytest_dlperf.store.baseline import cost_file
from pytest_dlperf.store.baseline.cost_file import StoredCost

if TYPE_CHECKING:
    from pytest_dlperf.flow.bench import Bench, SideBySide

#: Folder of a trace in that of its case.
TRACE: Final = "trace"
#: Between two looks at how far a trace has come.
_LOOK_S: Final = 0.5


def trace_plan(case: Case, bench: Bench, workload_folder: str) -> LaunchPlan:
    """Return the plan of the trace of ``case``."""
    target = bench.target(case, workload_folder)
    return make_trace_plan(case, target, bench.folder / case.id / TRACE)


def judge_by_cost(case: Case, bench: Bench, workload_folder: str) -> Measured:
    """Trace ``case`` and compare its cost; raise ``DlperfError`` where that cannot be done.

    With the stored one, or with that of the other arm.
    """
    if bench.side_by_side is not None:
        return _against_arm(case, bench, bench.side_by_side, workload_folder)
    bench.check(case)
    stored = cost_file.read(bench.stored.store.root, case.suite, case.id)
    now = _traced(case, bench, workload_folder, number=1, of=1)
    if stored is None:
        finding = Finding(code="nothing-stored", weight=Weight.UNSTORED, figures={"kind": "cost"})
        measured = _measured(now, judgement_by((finding,)), cost_comparison(None, now))
        return _with_time(measured, case, bench, now, None)
    differs = differing_conditions(stored.record, now)
    if stored.case_version != case.version:
        differs = f"version {stored.case_version} of the case then, {case.version} now"
    measured = _compared(case, stored.record, now, differs, against="the baseline")
    return _with_time(measured, case, bench, now, stored.record)


def _against_arm(case: Case, bench: Bench, sides: SideBySide, workload_folder: str) -> Measured:
    """Trace both arms, that of before first."""
    arms = [sides.arms.ready(arm) for arm in (sides.against, sides.now)]
    folders = (bench.folder / "before", bench.folder)
    costs: list[CostRecord] = []
    for number, (arm, folder) in enumerate(zip(arms, folders, strict=True), start=1):
        own = bench.with_arm(arm, folder, inject=False, reported=Reported())
        try:
            own.check(case)
            costs.append(_traced(case, own, workload_folder, number=number, of=2))
        except NotRunError:
            raise
        except DlperfError as error:
            if number == 2:
                raise
            raise CaseError(
                error.words(below=case.id), subject=f"{case.id}, against {arm.words}"
            ) from error
    before, now = costs
    differs = differing_conditions(before, now)
    measured = _compared(case, before, now, differs, against=arms[0].words)
    measured = _with_time(measured, case, bench, now, before)
    against = _named(arms[0], arms[1])
    return replace(measured, against=against)


def _with_time(
    measured: Measured, case: Case, bench: Bench, now: CostRecord, before: CostRecord | None
) -> Measured:
    """Return ``measured`` with the predicted time of the step, if a device was named for it."""
    device = bench.cost_device
    if device is None or measured.cost is None:
        return measured
    before = before if measured.cost.has_before else None
    predicted = predicted_time(now, device, case.layout.devices_per_node, before)
    errors, unchecked = prediction_errors(device, bench.stored.store)
    predicted = replace(predicted, errors=errors, unchecked=unchecked)
    return replace(measured, cost=replace(measured.cost, predicted=predicted))


def _named(arm: ReadyArm, now: ReadyArm) -> Against:
    return Against(
        name=arm.name,
        kind=arm.kind,
        commit=arm.commit,
        now="" if now.kind == "here" else now.words,
    )


def _compared(
    case: Case, before: CostRecord, now: CostRecord, differs: str, *, against: str
) -> Measured:
    if differs:
        figures = {"kind": "cost", "fields": differs}
        finding = Finding(code="conditions-differ", weight=Weight.DIFFERENT, figures=figures)
        return _measured(now, judgement_by((finding,)), cost_comparison(None, now))
    comparison = cost_comparison(before, now, case.cost)
    findings = cost_findings(comparison, against=against)
    return _measured(now, judgement_by(findings), comparison)


def _measured(cost: CostRecord, judgement: Judgement, comparison: CostComparison) -> Measured:
    framework = {name: cost[name] for name in ("framework", "framework_version")}
    facts: RunFacts = {"framework": cast("FrameworkRecord", framework)}
    return Measured(measurement=None, judgement=judgement, facts=facts, cost=comparison)


def _traced(case: Case, bench: Bench, workload_folder: str, *, number: int, of: int) -> CostRecord:
    """Return the cost that one process traced."""
    plan = trace_plan(case, bench, workload_folder)
    shutil.rmtree(plan.workdir, ignore_errors=True)  # of an attempt that failed
    watcher, looked_s = bench.watcher, 0.0

    def tick(folder: Path) -> None:
        nonlocal looked_s
        if time.monotonic() - looked_s > _LOOK_S:
            looked_s = time.monotonic()
            watcher.traces(case, number, of, trace_progress(folder))

    watcher.traces(case, number, of, STARTING)
    return cost_of(execute(plan, on_tick=tick), case.id)


def cost_to_store(case: Case, folder: str, reason: str) -> StoredCost:
    """Return what is stored of the cost that was traced in ``folder``, that of the outcome."""
    record = cost_in(Path(folder) / TRACE, case.id)
    return StoredCost(record=record, case_version=case.version, reason=reason)
