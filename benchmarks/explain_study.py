"""Does an explanation name what was planted? Tries of each kind of cause, and unchanged ones.

``python benchmarks/explain_study.py --tries=10`` in an environment with PyTorch and this package.
A try is four launches of two ranks on CPUs, before, now, now, before, as ``--dlperf-explain``
makes them: the ranks are the worker's own, forked from a process that has imported PyTorch, and
their profiles go through the same attribution. A stopwatch in the training times the planted work
in the very steps that were profiled. Each try is a line of a file, which a later start goes on
with. ``--gpu`` makes tries of one rank on a GPU, where the steps of the window say what was
planted.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import os
import random
import signal
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from explained.said import (  # noqa: E402
    NOTHING,
    NOTHING_OF,
    PART,
    PART_ON_GPU,
    is_unchanged,
    judged,
    table,
    words,
)
from pytest_dlperf.core.wire import RankArguments  # noqa: E402
from pytest_dlperf.judge.explain.operator_changes import Profile  # noqa: E402
from pytest_dlperf.measure.records import RankRecords, read_records  # noqa: E402

#: The kind whose allocations are recorded, of further steps.
_HAS_MEMORY: Final = "growing-allocation"
_MEMORY_STEPS: Final = 3
#: Samples of a rank where it is not those of the place. With few, a step has little computation
#: that hides the averaging: with 128 what the bucket costs varied from 0.7 to 12 ms of 100.
_BATCHES: Final = {"small-bucket": 16}
_ITERATIONS: Final = 20
_WARMUP: Final = 5
_TIMEOUT_S: Final = 40.0
_MOST_HUNG: Final = 3


class Place(NamedTuple):
    """Where a try is made."""

    device: Literal["cpu", "gpu"]
    ranks: int
    workload: str
    batch: int
    parts: Mapping[str, str]


ON_CPUS: Final = Place("cpu", 2, "explained.planted:build", 128, PART)
ON_GPU: Final = Place("gpu", 1, "explained.planted_on_gpu:build", 1024, PART_ON_GPU)


class Launch(NamedTuple):
    """One launch: its profile, what its stopwatch read, and the speed of its window."""

    profile: Profile
    #: By rank: seconds in the planted places, a step; of the whole step on a GPU.
    planted_s: dict[int, float]
    iterations_per_s: float


def main() -> int:
    """Make tries until each kind has as many as wanted, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=10)
    parser.add_argument("--unchanged", type=int, default=20, help="tries without a cause")
    parser.add_argument("--gpu", action="store_true", help="one rank on a GPU")
    parser.add_argument("--kinds", help="causes with commas between them; all if not given")
    parser.add_argument("--file", type=Path, default=ROOT / ".dlperf/explained.jsonl.gz")
    parser.add_argument("--results", type=Path, help="what is said of each try, as lines")
    parser.add_argument("--table", action="store_true", help="print the table of what is there")
    arguments = parser.parse_args()
    place = ON_GPU if arguments.gpu else ON_CPUS
    arguments.kinds = arguments.kinds or ",".join([*place.parts, NOTHING])
    file: Path = arguments.file
    file.parent.mkdir(parents=True, exist_ok=True)
    tries = [line for line in read(file) if line.get("device", "cpu") == place.device]
    if not arguments.table:
        _import_once()
        while left := _left(arguments, tries):
            kind = random.choice(left)
            line = tried(kind, place)
            tries.append(line)
            with gzip.open(file, "at", encoding="utf-8") as lines:
                lines.write(json.dumps(line) + "\n")
            print(words(judged(json.loads(json.dumps(line)))), flush=True)
    results = [judged(json.loads(json.dumps(line))) for line in tries]
    if arguments.results:
        text = "".join(json.dumps(line) + "\n" for line in results)
        arguments.results.write_text(text, encoding="utf-8")
    print(table(results))
    return 0


def _import_once() -> None:
    """Import what the ranks need: they are forked from this process, with one thread each."""
    os.environ.update(
        OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", TORCHINDUCTOR_COMPILE_THREADS="1"
    )
    import torch._dynamo  # noqa: F401  # by DistributedDataParallel

    import pytest_dlperf.worker.frameworks.torch.profile  # noqa: F401


def read(file: Path) -> list[dict[str, Any]]:
    """Return the tries that ``file`` holds; none without a file."""
    if not file.exists():
        return []
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def _left(arguments: argparse.Namespace, tries: Sequence[dict[str, Any]]) -> list[str]:
    """Return the kinds that want more tries, each as often as it wants."""
    wanted = {
        kind: arguments.unchanged if is_unchanged(kind) else arguments.tries
        for kind in arguments.kinds.split(",")
    }
    for line in tries:
        if line["kind"] in wanted:
            wanted[line["kind"]] -= 1
    return [kind for kind, count in wanted.items() for _ in range(count)]


def tried(kind: str, place: Place) -> dict[str, Any]:
    """Return what one try showed: the explanation's rows, and what the stopwatch read."""
    begin_s = time.monotonic()
    hung = 0
    arms: dict[str, list[Launch]] = {"before": [], "now": []}
    watched = kind.removeprefix(NOTHING_OF)
    for side in ("before", "now", "now", "before"):
        planted = kind if side == "now" and not is_unchanged(kind) else NOTHING
        while True:
            try:
                arms[side].append(launched(planted, place, watched=watched))
                break
            except TimeoutError as error:
                print(error, file=sys.stderr, flush=True)
                hung += 1
                if hung == _MOST_HUNG:
                    raise
    return {
        "kind": kind,
        "device": place.device,
        "seconds": round(time.monotonic() - begin_s, 1),
        "load": round(os.getloadavg()[0], 1),
        "launched_again": hung,
        **{
            side: [
                {
                    "profile": {rank: dict(profile) for rank, profile in launch.profile.items()},
                    "planted_s": launch.planted_s,
                    "iterations_per_s": launch.iterations_per_s,
                }
                for launch in launches
            ]
            for side, launches in arms.items()
        },
    }


def launched(planted: str, place: Place, *, watched: str) -> Launch:
    """Train once, and profile; raise ``RuntimeError`` if a rank fails."""
    batch = _BATCHES.get(watched, place.batch)
    with tempfile.TemporaryDirectory(prefix="explain-study-") as folder:
        arguments = RankArguments(
            framework="torch",
            workload=place.workload,
            precision="fp32",
            device=place.device,
            size="tiny",
            loss="finite",
            batch_size_per_device=batch,
            world_size=place.ranks,
            iterations=_ITERATIONS,
            warmup=_WARMUP,
            threads_per_rank=1,
            collective_timeout_s=60.0,
            seed=1,
            records=f"{folder}/records",
            place_from=("RANK", "LOCAL_RANK", "WORLD_SIZE"),
            work=batch,
            profile=True,
        )
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        children = {}
        for rank in range(place.ranks):
            environment = {
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(place.ranks),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "PLANTED": planted,
                "WATCHED": watched,
                "STOPWATCH": f"{folder}/stopwatch",
            }
            children[_forked(arguments, environment, Path(folder))] = rank
        _wait_for(children, Path(folder))
        records = read_records(Path(arguments.records))
        speed = _speed(records)
        later_steps = _MEMORY_STEPS if watched == _HAS_MEMORY else 0
        return Launch(
            profile={
                records_of_rank.rank: records_of_rank.by_kind["profile"]
                for records_of_rank in records
            },
            planted_s={0: 1 / speed}
            if place is ON_GPU
            else {
                rank: _planted_s(Path(folder), rank, later_steps) for rank in range(place.ranks)
            },
            iterations_per_s=speed,
        )


def _forked(arguments: RankArguments, environment: dict[str, str], folder: Path) -> int:
    child = os.fork()
    if child:
        return child
    from pytest_dlperf.worker import __main__ as worker
    from pytest_dlperf.worker import host_stacks, loop
    from pytest_dlperf.worker.frameworks import profiling

    # Nothing is compared over launches here, and it takes most of their time
    for module in (worker, loop):
        vars(module)["write_canary"] = lambda *_, **__: None
    # Nor of these, which come after the profile
    vars(host_stacks)["sampler"] = lambda *_: None
    vars(profiling)["_write_trace"] = lambda *_: ""
    if environment["WATCHED"] != _HAS_MEMORY:
        vars(profiling)["_add_memory"] = lambda *_: []
    _take_precedence()
    os.environ.update(environment)
    log = os.open(folder / f"log{environment['RANK']}", os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.argv[1:] = arguments.flags()
    try:
        worker.main()
    finally:
        worker._leave()


def _take_precedence() -> None:
    """Let other programs wait for this rank and its threads, where the user may ask for that.

    Else a step is as long as the others let it be, and no two launches are alike. Linux weighs
    sessions against each other before the threads within one, so the session is to be first.
    """
    os.setsid()
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text("-19", encoding="ascii")
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, -19)


def _wait_for(children: dict[int, int], folder: Path) -> None:
    end_s = time.monotonic() + _TIMEOUT_S
    left = dict(children)
    try:
        while left:
            child, status = os.waitpid(-1, os.WNOHANG)
            if child:
                rank = left.pop(child)
                if status:
                    log = (folder / f"log{rank}").read_text("utf-8", errors="replace")
                    raise RuntimeError(f"rank {rank} ended with {status}:\n{log[-3000:]}")
            elif time.monotonic() > end_s:
                raise TimeoutError(f"a launch took more than {_TIMEOUT_S:.0f} s")
            else:
                time.sleep(0.02)
    finally:
        for child in left:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _planted_s(folder: Path, rank: int, later_steps: int) -> float:
    """Return the stopwatch's seconds in the steps whose profile is kept.

    One step before the profiled ones says how many events a step has; ``later_steps`` follow them.
    """
    lines = (folder / f"stopwatch.{rank}").read_text("utf-8").splitlines()
    profiled = lines[_ITERATIONS + 1 : len(lines) - later_steps]
    steps = sorted(tuple(map(float, one.split())) for one in profiled)
    left_out = len(steps) // 4  # at each end, as ``step_parts.without_extremes``
    return statistics.fmean(planted_s for _, planted_s in steps[left_out : len(steps) - left_out])


def _speed(records: Sequence[RankRecords]) -> float:
    """Return iterations a second of the slowest rank's window."""
    seconds = [
        sum(span.seconds for span in one.spans if span.first_step >= _WARMUP) for one in records
    ]
    return (_ITERATIONS - _WARMUP) / max(seconds)


if __name__ == "__main__":
    sys.exit(main())
