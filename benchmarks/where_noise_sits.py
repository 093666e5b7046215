"""Where the noise of a training sits: session, launch, build, block, or iteration.

By hand, on a machine without other work: ``tox -e bench-noise -- --minutes=240``. Each session
launches every case under every arm, in random order, as the plugin launches it; each launch builds
its model several times, and trains each build in blocks. Every launch is a line of a file, and a
later start goes on with it. The table has the variance components of log step times, with
intervals of 90 %.
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from noise_levels import rebuilt
from noise_levels.components import Component, Estimate, analysis, components
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.protocol import Protocol
from pytest_dlperf.launch.base import Target
from pytest_dlperf.launch.plan import make_plan
from pytest_dlperf.launch.process.execute import execute
from pytest_dlperf.measure.records import RankRecords, read_records

ROOT: Final = Path(__file__).resolve().parents[1]
LEVELS: Final = ("session", "launch", "build", "block", "iteration")
#: The first of the warm-up are watched and slow; the first of each build fill caches.
_WARM_UP: Final = 20
_SETTLE: Final = 5
_PILOT: Final = 30
#: Launches that may fail; with more of them something is wrong.
_MOST_FAILED: Final = 5


class Arm(NamedTuple):
    """What is set for a launch: variables, and words before its command."""

    variables: Mapping[str, str] = {}
    prefix: tuple[str, ...] = ()


_KEPT: Final = str(2**34)
ARMS: Final = {
    "plain": Arm(),
    "huge-pages": Arm(
        # PyTorch's allocator of CPU tensors, and glibc's malloc, ask for them
        {"THP_MEM_ALLOC_ENABLE": "1", "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
    ),
    "small-pages": Arm({rebuilt.SMALL_PAGES: "1"}),
    # Freed memory stays with the process, so that no iteration faults pages in
    "kept-memory": Arm({"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": _KEPT}),
    "pinned": Arm({rebuilt.PINNED: "1"}),
    # Neither addresses nor hashes are random
    "same-layout": Arm({"PYTHONHASHSEED": "0"}, ("setarch", "-R")),
}


class Sizes(NamedTuple):
    """How much a launch trains."""

    builds: int
    blocks: int
    #: Iterations of a block.
    each: int

    @property
    def build_iterations(self) -> int:
        """Iterations of a build, with those that are left out."""
        return _SETTLE + self.blocks * self.each


def main() -> int:
    """Launch until the time is over, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=240.0)
    parser.add_argument("--suites", default="resnet50,tsm", help="with a tiny case of PyTorch")
    parser.add_argument("--layouts", default="1n1c,1n2c")
    parser.add_argument(
        "--arms", default="plain,huge-pages,kept-memory,pinned,same-layout", help=", ".join(ARMS)
    )
    parser.add_argument("--launches", type=int, default=2, help="of a case and arm in a session")
    parser.add_argument("--builds", type=int, default=3)
    parser.add_argument("--blocks", type=int, default=6)
    parser.add_argument("--block-seconds", type=float, default=0.5)
    parser.add_argument("--pause-minutes", type=float, default=0.0, help="between sessions")
    parser.add_argument("--file", type=Path, default=ROOT / ".dlperf/where-noise-sits.jsonl")
    parser.add_argument("--table", action="store_true", help="print the table of what is there")
    arguments = parser.parse_args()
    unknown = set(arguments.arms.split(",")) - set(ARMS)
    if unknown:
        parser.error(f"unknown arms: {', '.join(sorted(unknown))}")
    file: Path = arguments.file.resolve()
    if file.suffix == ".gz" and not arguments.table:
        parser.error(f"{file} is compressed: it can only be read (--table)")
    if not arguments.table:
        file.parent.mkdir(parents=True, exist_ok=True)
        measure(arguments, file)
    if not file.exists():
        print(f"{file} is not there: nothing was measured", file=sys.stderr)
        return 1
    print(table(read(file)))
    return 0


def cases_of(suites: Sequence[str], layouts: Sequence[str]) -> list[Case]:
    """Return the tiny FP32 cases of PyTorch; raise ``ValueError`` for a suite that has none."""
    cases = []
    for suite in suites:
        declared = importlib.import_module(f"perf_tests.{suite}.cases").CASES
        own = [
            case
            for case in declared
            if (case.framework, case.size, case.precision) == ("torch", "tiny", "fp32")
            and str(case.layout) in layouts
        ]
        if not own:
            raise ValueError(f"{suite} has no tiny FP32 case of PyTorch on {', '.join(layouts)}")
        cases += own
    return cases


def measure(arguments: argparse.Namespace, file: Path) -> None:
    """Launch sessions until the time is over; append a line for each launch."""
    end_s = time.monotonic() + 60 * arguments.minutes
    cases = cases_of(arguments.suites.split(","), arguments.layouts.split(","))
    if file.exists():
        drop_cut_line(file)
    lines_of_file = read(file) if file.exists() else []
    each = {line["case"]: line["iterations"] for line in lines_of_file}
    session = max((line["session"] for line in lines_of_file), default=-1) + 1
    draw, failed = random.Random(), 0
    threads = max(1, (os.cpu_count() or 1) // max(case.world_size for case in cases))
    while time.monotonic() < end_s:
        deck = [(case, arm) for case in cases for arm in arguments.arms.split(",")]
        deck *= arguments.launches
        draw.shuffle(deck)
        for case, arm in deck:
            if time.monotonic() >= end_s:
                return
            try:
                if case.id not in each:
                    each[case.id] = iterations_of(case, arguments.block_seconds, threads)
                sizes = Sizes(arguments.builds, arguments.blocks, each[case.id])
                blocks = launched(case, ARMS[arm], sizes, threads)
            except RuntimeError as error:
                failed += 1
                if failed == _MOST_FAILED:
                    raise
                print(f"{arm}: {error}", file=sys.stderr, flush=True)
                continue
            line = {
                "case": case.id,
                "arm": arm,
                "session": session,
                "iterations": sizes.each,
                "time": round(time.time()),
                "load": round(os.getloadavg()[0], 2),
                **blocks,
            }
            with file.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(line, separators=(",", ":")) + "\n")
            print(session, case.id, arm, f"{_typical_us(line) / 1000:.2f} ms", flush=True)
        session += 1
        time.sleep(max(0.0, min(60 * arguments.pause_minutes, end_s - time.monotonic())))


def iterations_of(case: Case, block_s: float, threads: int) -> int:
    """Return how many iterations of ``case`` take so long, by a short launch."""
    steps_us = launched(case, ARMS["plain"], Sizes(1, 1, _PILOT), threads)["steps_us"][0][0]
    return max(2, round(1e6 * block_s / float(statistics.median(steps_us))))


def read(file: Path) -> list[dict[str, Any]]:
    """Return the lines of ``file``, which may be compressed; a last one that was cut short not."""
    opened = gzip.open if file.suffix == ".gz" else open
    with opened(file, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.endswith("\n")]


def drop_cut_line(file: Path) -> None:
    """Remove the end of ``file`` after its last whole line: that of a start that was killed."""
    content = file.read_bytes()
    os.truncate(file, content.rfind(b"\n") + 1)


def launched(case: Case, arm: Arm, sizes: Sizes, threads: int) -> dict[str, Any]:
    """Launch ``case`` once; return its steps by build and block, and CPU time by block.

    Raises ``RuntimeError`` with the end of the log where a rank failed.
    """
    protocol = Protocol(
        iterations=_WARM_UP + sizes.builds * sizes.build_iterations,
        warmup=_WARM_UP,
        timeout_s=600.0,
    )
    case_now = replace(
        case, workload="noise_levels.rebuilt:build", loss="finite", protocol=protocol
    )
    variables = {
        rebuilt.WORKLOAD: case.workload,
        rebuilt.WARM_UP: str(_WARM_UP),
        rebuilt.EACH: str(sizes.build_iterations),
        **arm.variables,
    }
    target = Target(
        python=sys.executable,
        python_path=(str(ROOT), str(ROOT / "benchmarks")),
        threads_per_rank=threads,
        scaling=False,
        variables=variables,
    )
    with tempfile.TemporaryDirectory(prefix="where-noise-sits-") as folder:
        plan = make_plan(case_now, target, Path(folder) / "run")
        run = execute(replace(plan, argv=(*arm.prefix, *plan.argv)))
        ranks = read_records(Path(plan.records))
        if run.exit_code or sum(records.wrote("end") for records in ranks) != case.ranks:
            log = Path(run.log).read_text(encoding="utf-8", errors="replace")
            raise RuntimeError(f"{case.id} ended with {run.exit_code} {run.end}\n{log[-3000:]}")
        return times_by_block(ranks, sizes)


def times_by_block(ranks: Sequence[RankRecords], sizes: Sizes) -> dict[str, Any]:
    """Return microseconds of each iteration, and CPU microseconds of each block, by build."""
    slowest = max(ranks, key=lambda rank: sum(span.seconds for span in rank.spans))
    steps, cpu = [], []
    for number in range(sizes.builds):
        first = _WARM_UP + number * sizes.build_iterations + _SETTLE
        ends = [
            (first + i * sizes.each, first + (i + 1) * sizes.each) for i in range(sizes.blocks)
        ]
        steps.append(
            [[round(1e6 * s.seconds) for s in slowest.spans[begin:end]] for begin, end in ends]
        )
        cpu.append(
            [
                round(1e6 * sum(s.cpu_seconds or 0.0 for r in ranks for s in r.spans[begin:end]))
                for begin, end in ends
            ]
        )
    return {"steps_us": steps, "cpu_us": cpu}


def _typical_us(line: Mapping[str, Any]) -> float:
    steps = [step for build in line["steps_us"] for block in build for step in block]
    return float(statistics.median(steps))


def table(lines: Sequence[Mapping[str, Any]]) -> str:
    """Return the tables: components of the log step time, and of CPU time, by case and arm."""
    kinds = sorted({(line["case"], line["arm"]) for line in lines})
    plain = {
        case: statistics.median(typical)
        for case, arm in kinds
        if arm == "plain"
        and (typical := [_typical_us(o) for o in lines if (o["case"], o["arm"]) == (case, arm)])
    }
    parts = []
    for title, key, names in (
        ("log step time", "steps_us", LEVELS),
        ("log CPU time of a block, all ranks", "cpu_us", LEVELS[:-1]),
    ):
        parts.append(
            f"{title}: standard deviation and share of the variance, with intervals of 90 %\n\n"
            f"| case | arm | sessions, launches | step | to plain | {' | '.join(names)} |\n"
            + "|---" * (5 + len(names))
            + "|"
        )
        for case, arm in kinds:
            of_row = [line for line in lines if (line["case"], line["arm"]) == (case, arm)]
            step_us = statistics.median(map(_typical_us, of_row))
            to_plain = f"{100 * (step_us / plain[case] - 1):+.1f} %" if case in plain else ""
            by_name = {component.name: component for component in found_in(of_row, key, names)}
            cells = [_cell(by_name.get(name)) for name in names]
            sessions = len({line["session"] for line in of_row})
            parts[-1] += (
                f"\n| {case} | {arm} | {sessions}, {len(of_row)} | {step_us / 1000:.2f} ms | "
                f"{to_plain} | {' | '.join(cells)} |"
            )
    return "\n\n".join(parts)


def found_in(
    lines: Sequence[Mapping[str, Any]], key: str, names: Sequence[str]
) -> list[Component]:
    """Return the components of the launches of one case and arm; none where nothing repeats."""
    values: list[float] = []
    groups: list[tuple[int, ...]] = []
    for number, line in enumerate(lines):
        for build, blocks in enumerate(line[key]):
            for block, measured in enumerate(blocks):
                if isinstance(measured, list):
                    values += measured
                    groups += [(line["session"], number, build, block)] * len(measured)
                else:
                    values.append(measured)
                    groups.append((line["session"], number, build))
    if min(values) <= 0 or len(values) < 2:
        return []
    import numpy as np

    nested = analysis(np.log(values).tolist(), list(zip(*groups, strict=True)), names)
    return components(nested)


def _cell(component: Component | None) -> str:
    """Return the deviation and the share of a component; ``--`` where the design shows none."""
    if component is None:
        return "--"
    return f"{_percent(component.sd)}; {_percent(component.share, digits=0)}"


def _percent(estimate: Estimate, digits: int = 1) -> str:
    value, low, high = (f"{100 * number:.{digits}f}" for number in estimate)
    return f"{value} % [{low}, {high}]"


if __name__ == "__main__":
    sys.exit(main())
