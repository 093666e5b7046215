"""Outcomes as a week of sessions would leave them, for pages: every verdict, every chart."""

from __future__ import annotations

import random
import shlex
from dataclasses import replace

from pytest_dlperf.core.baseline import Session
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.layout import Layout
from pytest_dlperf.core.measurement import Conditions, Environment, Measurement
from pytest_dlperf.core.outcome import Against, Outcome
from pytest_dlperf.core.run import Problem, RankScaling, RankSummary, RunSummary, Scaling
from pytest_dlperf.core.verdict import Comparison, Judgement, Verdict

MACHINE = "8x-v100-sxm2-32gb"
WARMUP, ITERATIONS = 50, 150
_RATES = {"tsm": 63.0, "resnet50": 392.0, "arcface": 710.0, "deeplabv3p": 11.4}
_BATCHES = {"tsm": 16, "resnet50": 128, "arcface": 64, "deeplabv3p": 4}
_SOFTWARE = {
    "torch": "2.12.1",
    "driver": "570.86.15",
    "cuda": "12.6",
    "cudnn": "9.5.1",
    "nccl": "2.23.4",
    "python": "3.11.7",
}
_MACHINE = {
    "os": "Ubuntu 22.04.5 LTS",
    "gpu": "Tesla V100-SXM2-32GB * 8",
    "cpu": "Intel(R) Xeon(R) Gold 6271C CPU @ 2.60GHz * 48",
    "memory": "502 GiB",
}


def environment(node: str = "训练节点-07", **software: str) -> Environment:
    return Environment(
        machine_class=MACHINE,
        hardware=MACHINE,
        node=node,
        software=_SOFTWARE | software,
        machine=_MACHINE,
    )


def case(suite: str = "tsm", layout: str = "1n8g", framework: str = "torch") -> Case:
    return Case(
        suite=suite,
        framework=framework,
        workload="mymodel:build",
        precision="amp",
        batch_size_per_device=_BATCHES.get(suite, 16),
        layout=Layout.parse(layout),
    )


def run(
    of: Case,
    rate: float,
    chance: random.Random,
    *,
    stalls: tuple[int, ...] = (),
    waits: bool = False,
    slow_rank: int | None = None,
    folder: str = "/var/dlperf/runs",
) -> RunSummary:
    """Return a run at about ``rate``, with what a real one has."""
    typical_s = of.global_batch_size / rate
    steps = [typical_s * chance.gauss(1.0, 0.012) for _ in range(ITERATIONS)]
    steps[0] = typical_s * 6
    for index in range(1, 12):
        steps[index] *= 1 + 0.4 / index
    for index in stalls:
        steps[index] = typical_s * chance.uniform(2.4, 3.6)
    waited = tuple(step * chance.uniform(0.05, 0.3) for step in steps) if waits else ()
    ranks = tuple(
        RankSummary(
            rank=rank,
            node=_node(of, rank),
            seconds=typical_s * (ITERATIONS - WARMUP),
            cpu_seconds=None,
            peak_memory_bytes=int(14.2 * 2**30 + chance.uniform(0, 2**28) + (rank == 0) * 2**29),
            loss_first=6.9,
            loss_last=2.1,
        )
        for rank in range(of.world_size)
    )
    scaling = None
    if of.world_size > 1:
        scaling = Scaling(
            method="without all-reduce",
            ranks=tuple(
                RankScaling(
                    rank=rank.rank,
                    node=rank.node,
                    step_seconds=typical_s,
                    own_seconds=typical_s
                    * chance.gauss(0.86, 0.004)
                    * (1.09 if rank.rank == slow_rank else 1.0),
                )
                for rank in ranks
            ),
            collectives_share=chance.gauss(0.13, 0.005),
            all_reduce_gb_per_s={"1048576": 11.4, "67108864": 58.3},
        )
    return RunSummary(
        throughput=rate * chance.gauss(1.0, 0.004),
        estimates={"mean_of_rates": rate, "median_step": rate},
        step_seconds=tuple(steps),
        ranks=ranks,
        peak_memory_bytes=max(rank.peak_memory_bytes or 0 for rank in ranks),
        time_to_first_step_s=chance.uniform(9, 14),
        canary={"matmul_tflops": chance.gauss(98, 0.4)},
        canary_by_node={
            node: {"matmul_tflops": chance.gauss(98, 0.4)}
            for node in {rank.node for rank in ranks}
        },
        others_cpu_share=chance.uniform(0.0, 0.02),
        data_wait_share=0.17 if waits else None,
        data_wait_seconds=waited,
        elapsed_s=41.0,
        log=f"{folder}/{of.id}/output.log",
        folder=f"{folder}/{of.id}",
        scaling=scaling,
    )


def _node_id(of: Case) -> str:
    return f"perf_tests/{of.suite}/test_{of.suite}.py::test_train[{of.id}]"


def _node(of: Case, rank: int) -> str:
    return f"训练节点-{7 + rank // of.layout.devices_per_node:02}"


def judged(
    of: Case,
    change: float = 0.0,
    verdict: Verdict = Verdict.PASSED,
    *,
    reason: str = "",
    sessions: int = 6,
    seed: int = 1,
    problems: tuple[Problem, ...] = (),
    now: Environment | None = None,
    **run_fields: object,
) -> Outcome:
    """Return a case that was measured, and judged against ``sessions`` stored ones."""
    chance = random.Random(f"{seed} {of.id}")
    level = (
        _RATES.get(of.suite, 100.0) * of.world_size * (0.965 ** (of.world_size.bit_length() - 1))
    )
    stored = tuple(
        Session(
            time=f"2026-11-{8 + index:02}T02:1{index % 10}:00Z",
            runs=tuple(level * chance.gauss(1, 0.008) for _ in range(5)),
            commit=f"{index:x}4c1f0a92be7",
            node="训练节点-07",
            software=_SOFTWARE,
            machine=_MACHINE,
        )
        for index in range(sessions)
    )
    runs = tuple(
        run(of, level * (1 + change), chance, **run_fields)  # type: ignore[arg-type]
        for _ in range(5)
    )
    measurement = Measurement(
        case_id=of.id,
        unit=of.unit,
        conditions=Conditions(
            window=(WARMUP, ITERATIONS),
            launcher="torchrun",
            world_size=of.world_size,
            batch_size_per_device=of.batch_size_per_device,
            unit=of.unit,
            dtype="float16",
            data="real" if run_fields.get("waits") else "synthetic",
            parameter_count=25_557_032,
            input_shapes=((of.batch_size_per_device, 3, 224, 224),),
            options={},
            threads_per_rank=6,
            host_sharing=False,
            hardware=MACHINE,
            version=1,
        ),
        runs=runs,
        parent_throughputs=() if of.world_size == 1 else (level / of.world_size / 0.93,),
        problems=problems,
    )
    measured = measurement.throughput / level - 1
    throughput = Comparison()
    if stored:
        throughput = Comparison(
            now=measurement.throughput,
            before=level,
            change=measured,
            interval=(measured - 0.011, measured + 0.011),
            sees=0.018,
            tolerance=0.03,
            verdict=verdict,
        )
    peak = measurement.peak_memory_bytes
    assert peak is not None
    memory = Comparison(now=peak, before=peak * 0.995, change=0.005, tolerance=0.05)
    return Outcome(
        case=of,
        judgement=Judgement(
            verdict=verdict,
            reason=reason or f"{measured:+.1%} against 6 sessions, within the tolerance of 3.0 %",
            throughput=throughput,
            metrics={"peak_memory": memory} if stored else {},
        ),
        measurement=measurement,
        environment=now or environment(torch="2.13.0", nccl="2.25.1"),
        baseline_sessions=stored,
        node_id=_node_id(of),
        command=shlex.join(["pytest", _node_id(of), "--gpus=1,8"]),
        failed=verdict in {Verdict.REGRESSED, Verdict.ERROR},
        time="2026-11-21T05:00:00Z",
        commit="9be41c07d2aa11f0",
        elapsed_s=236.0,
        folder=f"/var/dlperf/runs/{of.id}",
    )


def unmeasured(of: Case, verdict: Verdict, reason: str) -> Outcome:
    return Outcome(
        case=of,
        judgement=Judgement(verdict=verdict, reason=reason),
        environment=environment(),
        node_id=_node_id(of),
        command=shlex.join(["pytest", _node_id(of), "--gpus=1,8"]),
        failed=verdict is Verdict.ERROR,
        time="2026-11-21T05:00:00Z",
        commit="9be41c07d2aa11f0",
    )


def against(of: Case, change: float, verdict: Verdict, name: str = "torch==2.12.1") -> Outcome:
    """Return a case that was measured in pairs with another arm."""
    now = judged(of, change, verdict, sessions=0, seed=2)
    before = judged(of, 0.0, verdict, sessions=0, seed=3).measurement
    assert now.measurement is not None
    assert before is not None
    measured = now.measurement.throughput / before.throughput - 1
    comparison = Comparison(
        now=now.measurement.throughput,
        before=before.throughput,
        change=measured,
        interval=(measured - 0.008, measured + 0.008),
        sees=0.012,
        tolerance=0.03,
        verdict=verdict,
    )
    return replace(
        now,
        judgement=Judgement(
            verdict=verdict,
            reason=f"{measured:+.1%} against {name}, 5 pairs",
            throughput=comparison,
        ),
        against=Against(
            name=name, kind="requirement", measurement=before, software=_SOFTWARE, order=("now",)
        ),
    )


ERROR = (
    "arcface-torch-amp-bs64-1n8g: rank 3: CUDA out of memory: 31.7 of 31.7 GiB are in use; lower "
    "batch_size_per_device, now 64.\n"
    "Log: /var/dlperf/runs/arcface/output.log, its last lines:\n"
    "    [rank3]: Traceback (most recent call last):\n"
    '    [rank3]:   File "model.py", line 88, in forward\n'
    "    [rank3]:     logits = torch.matmul(features, self.weight)\n"
    "    [rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 5.72 GiB"
)


def every_verdict() -> list[Outcome]:
    """Return one session with each kind of outcome."""
    return [
        judged(case("tsm", "1n1g"), 0.002),
        judged(case("tsm", "1n2g"), 0.001),
        judged(case("tsm", "1n4g"), -0.006),
        judged(
            case("tsm", "1n8g"),
            -0.062,
            Verdict.REGRESSED,
            reason="6.2 % slower than 6 sessions (90 % interval -7.3 to -5.1 %), more than the "
            "tolerance of 3.0 %; torch 2.12.1 became 2.13.0 and nccl 2.23.4 became 2.25.1; if the "
            "new level is meant, accept it: pytest --update-baselines --dlperf-reason=TEXT",
            stalls=(71, 108, 131),
            slow_rank=5,
        ),
        judged(case("tsm", "2n8g"), -0.011, slow_rank=11),
        judged(
            case("resnet50", "1n1g"),
            0.041,
            Verdict.IMPROVED,
            reason="4.1 % faster than 6 sessions",
        ),
        judged(
            case("resnet50", "1n8g"),
            0.008,
            waits=True,
            problems=(
                Problem(code="data-bound", message="17% of the time went into waiting for data"),
            ),
        ),
        judged(
            case("deeplabv3p", "1n8g"),
            0.0,
            Verdict.NO_BASELINE,
            sessions=0,
            reason="no baseline on 8x-v100-sxm2-32gb; store this session: pytest "
            "--update-baselines",
        ),
        judged(
            case("deeplabv3p", "1n1g"),
            -0.021,
            Verdict.INCONCLUSIVE,
            reason="2.1 % slower, and 5 runs cannot tell it from noise; measure again with "
            "--dlperf-runs=9",
        ),
        against(case("resnet50", "1n4g"), -0.043, Verdict.REGRESSED),
        unmeasured(case("arcface", "1n8g"), Verdict.ERROR, ERROR),
        unmeasured(
            case("arcface", "1n8g", "paddle"),
            Verdict.NOT_RUN,
            "没有安装 paddle: paddlepaddle-gpu is not installed; install it with pip install "
            "'pytest-dlperf[paddle-gpu]'",
        ),
    ]


def many(count: int) -> list[Outcome]:
    """Return ``count`` cases of one session, one in ten of them slower."""
    outcomes = []
    for index in range(count):
        suite = f"{list(_RATES)[index % 4]}_{index}"
        layout = ("1n1g", "1n8g")[index % 2]
        slower = index % 10 == 7
        outcomes.append(
            judged(
                case(suite, layout),
                -0.05 if slower else 0.0,
                Verdict.REGRESSED if slower else Verdict.PASSED,
                seed=index,
            )
        )
    return outcomes
