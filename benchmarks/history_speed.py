"""How long the series of one case takes in a history of many outcomes; by hand.

``python benchmarks/history_speed.py h.sqlite --outcomes=1000000`` writes that many, 200 cases a
session, and reads series; with the URL of an empty PostgreSQL in place of the file, the same
there. The outcomes are whole: five runs of 150 iterations on eight ranks each, with the ranks'
own figures. Their JSON is drawn from a pool that was compressed before, since packing a million
takes longer than storing them.
"""

from __future__ import annotations

import argparse
import datetime
import os
import random
import statistics
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.layout import Layout
from pytest_dlperf.core.measurement import Conditions, Environment, Measurement
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.run import RankSummary, RunSummary
from pytest_dlperf.core.verdict import Comparison, Judgement, Verdict
from pytest_dlperf.store.history.address import Address, parse_address
from pytest_dlperf.store.history.append import append_records
from pytest_dlperf.store.history.database import reading, writing
from pytest_dlperf.store.history.query import series_of, stored_cases
from pytest_dlperf.store.history.record import Record, digest, record_of

if TYPE_CHECKING:
    from collections.abc import Callable

#: Cases of a suite, every one measured in every session.
CASES = 200
#: Outcomes whose JSON is really made.
POOL = 400
BEGIN = datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)
MACHINE = "8x-h100-sxm5-80gb"
SOFTWARE = {
    "torch": "2.13.0", "python": "3.11.7", "cuda": "13.0", "cudnn": "9.12.0", "nccl": "2.27.5",
    "driver": "580.65.06", "kernel": "6.1.0-28-amd64", "gpu samples": "nvidia-ml-py 13.580.65",
}  # fmt: skip


def main() -> None:
    """Write, then read, and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("history", help="a file or a URL; it must be empty")
    parser.add_argument("--outcomes", type=int, default=10_000)
    arguments = parser.parse_args()
    address = parse_address(arguments.history, folder=Path.cwd(), what="history")
    print(f"{arguments.outcomes} outcomes in {address.shown}; load {os.getloadavg()[0]:.1f}")
    began_s = time.perf_counter()
    written = write(address, arguments.outcomes)
    print(f"written: {written} in {time.perf_counter() - began_s:.0f} s")
    if address.file is not None:
        print(f"file: {address.file.stat().st_size / 2**20:.0f} MiB")
    chosen = [f"bench{number:03}-torch-amp-bs16-1n8g" for number in range(0, CASES, 20)]
    seconds = [timed(partial(read_series, address, case_id)) for case_id in chosen]
    points = read_series(address, chosen[0])
    milliseconds = ", ".join(f"{1000 * second:.0f}" for second in seconds)
    print(
        f"series of one case, {points} points: median {1000 * statistics.median(seconds):.0f} ms"
    )
    print(
        f"  each of {len(chosen)}, opened anew: {milliseconds} ms; load {os.getloadavg()[0]:.1f}"
    )
    print(f"list of all cases: {1000 * timed(partial(read_cases, address)):.0f} ms")


def write(address: Address, outcomes: int) -> int:
    """Write sessions of ``CASES`` outcomes, a transaction each; return how many are stored."""
    pool = [record_of(outcome(index), mode="gate") for index in range(POOL)]
    noise = random.Random(0)
    written = 0
    for session in range(-(-outcomes // CASES)):
        records = [
            again(pool[(session * 7 + case) % POOL], session, case, noise) for case in range(CASES)
        ]
        with writing(address) as connection:
            some = records[: outcomes - written]
            written += append_records(connection, f"session{session}", some)
    return written


def read_series(address: Address, case_id: str) -> int:
    """Read the series of a case as the commands do; return the number of its points."""
    with reading(address) as connection:
        return sum(len(series.points) for series in series_of(connection, case_id))


def read_cases(address: Address) -> int:
    """Return how many cases there are."""
    with reading(address) as connection:
        return len(stored_cases(connection))


def timed(what: Callable[[], object]) -> float:
    """Return the seconds that ``what`` takes."""
    began_s = time.perf_counter()
    what()
    return time.perf_counter() - began_s


def again(record: Record, session: int, case: int, noise: random.Random) -> Record:
    """Return the record as of another session and case; its whole JSON stays."""
    case_id = f"bench{case:03}-torch-amp-bs16-1n8g"
    series = {**record.series, "case_id": case_id}
    series["digest"] = digest(case_id)
    when = BEGIN + datetime.timedelta(hours=2 * session, seconds=case)
    scalars = {
        **record.scalars,
        "time": f"{when:%Y-%m-%dT%H:%M:%SZ}",
        "commit_hash": digest(f"commit {session}") + "00000000",
        "throughput": 1000.0 + noise.gauss(0, 10),
    }
    return replace(record, identity=digest(f"{session} {case}"), series=series, scalars=scalars)


def outcome(seed: int) -> Outcome:
    """Return an outcome as a session on eight GPUs makes it."""
    noise = random.Random(seed)
    case = Case(
        suite="bench", framework="torch", precision="amp", batch_size_per_device=16,
        layout=Layout.parse("1n8g"), workload="mymodel:build",
    )  # fmt: skip
    runs = tuple(_run(noise) for _ in range(5))
    return Outcome(
        case=case,
        judgement=Judgement(
            verdict=Verdict.PASSED,
            reason="not slower than 3 % of 1003 samples/s: 0.2 % slower [-0.9, +0.5] %",
            throughput=Comparison(
                now=1001.0, before=1003.0, change=-0.002, interval=(-0.009, 0.005), sees=0.013,
                tolerance=0.03, verdict=Verdict.PASSED, p_regressed=0.71, p_passed=1e-5,
            ),
        ),
        measurement=Measurement(
            case_id=case.id, unit="samples", conditions=_conditions(), runs=runs,
            parent_throughputs=tuple(noise.gauss(130, 1) for _ in range(5)),
        ),
        environment=Environment(
            machine_class=MACHINE, hardware=MACHINE, node="gpu-node-17", software=SOFTWARE,
            machine={"os": "Debian GNU/Linux 12 (bookworm)", "memory": "2003 GiB"},
        ),
        node_id=f"perf_tests/bench/test_bench.py::test_bench[{case.id}]",
        time="2026-11-22T02:00:00Z",
        commit="0" * 40,
        elapsed_s=noise.uniform(100, 200),
        folder="/home/ci/project/.dlperf/20261122-020000-4711",
    )  # fmt: skip


def _run(noise: random.Random) -> RunSummary:
    return RunSummary(
        throughput=noise.gauss(1000, 10),
        estimates={"mean_of_rates": noise.gauss(1001, 10), "median_step": noise.gauss(1002, 10)},
        step_seconds=tuple(noise.gauss(0.128, 0.001) for _ in range(150)),
        ranks=tuple(_rank(noise, rank) for rank in range(8)),
        peak_memory_bytes=21_474_836_480,
        time_to_first_step_s=noise.gauss(9, 1),
        canary={"matmul_gflop_per_s": noise.gauss(5e5, 1e3), "copy_gb_per_s": noise.gauss(2e3, 9)},
        others_cpu_share=noise.uniform(0, 0.01),
        elapsed_s=noise.gauss(35, 1),
        log="/home/ci/project/.dlperf/20261122-020000-4711/run1/output.log",
        folder="/home/ci/project/.dlperf/20261122-020000-4711/run1",
    )


def _rank(noise: random.Random, rank: int) -> RankSummary:
    return RankSummary(
        rank=rank, node="gpu-node-17", seconds=noise.gauss(12.8, 0.01),
        cpu_seconds=noise.gauss(13, 0.2), peak_memory_bytes=21_474_836_480,
        loss_first=noise.gauss(6.9, 0.1), loss_last=noise.gauss(3.1, 0.1),
        device_id=f"GPU-{noise.getrandbits(64):016x}",
    )  # fmt: skip


def _conditions() -> Conditions:
    return Conditions(
        window=(50, 150), launcher="torchrun", world_size=8, batch_size_per_device=16,
        unit="samples", dtype="float16", data="synthetic", parameter_count=25_557_032,
        input_shapes=((16, 3, 224, 224), (16,)), options={}, threads_per_rank=12,
        host_sharing=False, hardware=MACHINE, version=1,
    )  # fmt: skip


if __name__ == "__main__":
    main()
