"""How much pairs differ, by the kind of program and by how its arms take turns.

``python benchmarks/pair_spread.py --folder=spread`` in an environment with the frameworks, on
a machine that does nothing else. Each program of ``pair_spread/`` is a small repository; sessions
of some pairs each are made in random order: in turns without the freezer, in turns with it, and
alternating. ``--step=1.25`` gives the working tree a quarter more of the products of a step, which
makes it about a twentieth longer; ``--data=1.2`` makes the making of its data longer by a fifth.
Every session is a line of ``pairs.jsonl``, which a later start adds to, and its steps one of
``steps.jsonl.gz``; ``--table`` prints the table alone. ``nodes`` needs root, and a /dev/net/tun:
it has two, with 5 ms between them.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import itertools
import json
import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Final, NamedTuple

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).resolve().parents[1]))

from tests.helpers.lab import Lab

PROGRAMS: Final = Path(__file__).with_name("pair_spread")
_PATTERN: Final = (
    'pattern(r"step (?P<step>\\d+) loss (?P<loss>\\S+) (?P<rate>\\S+) samples/s", '
    'scope="global", averaging="window", unit="samples")'
)


class Program(NamedTuple):
    """A program, and how its case is written."""

    file: str
    marker: str
    layout: str = "1n1c"


def _command(file: str, more: str) -> str:
    return f'command=["python", "{file}", "{{iterations}}"], {more}'


PROGRAMS_BY_NAME: Final = {
    "workload": Program("workload.py", 'workload="workload:build", framework="torch"'),
    "marked": Program("marked.py", _command("marked.py", 'framework="torch"')),
    "trainer": Program("trainer.py", _command("trainer.py", 'framework="torch"')),
    "lightning": Program(
        "lightning_program.py", _command("lightning_program.py", 'framework="torch"')
    ),
    "loader": Program("loader.py", _command("loader.py", 'framework="torch"')),
    "horovod": Program(
        "horovod_program.py", _command("horovod_program.py", 'framework="tensorflow"'), "1n2c"
    ),
    "jax": Program("jax_program.py", _command("jax_program.py", 'framework="jax"')),
    "nodes": Program("workload.py", 'workload="workload:build", framework="torch"', "2n1c"),
    "logged": Program(
        "logged.py", _command("logged.py", f'framework="torch", log_format={_PATTERN}')
    ),
}
WAYS: Final = {
    "turns": ("-p", "unfrozen"),
    "frozen": (),
    "alternating": ("--dlperf-pairs=alternating",),
}
_UNFROZEN: Final = """
import functools
from pytest_dlperf.flow import lock_step
lock_step.TurnsPlan = functools.partial(lock_step.TurnsPlan, is_frozen=False)
"""
_AMOUNT: Final = "STEP, DATA = {step}, {data}\n"
_STEP, _DATA = 20, 40
_TIMEOUT_S: Final = 1200
#: Of each link between two nodes, each way.
_DELAY_S: Final = 0.005


def main() -> int:
    """Make sessions for some time; print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--programs", default=",".join(PROGRAMS_BY_NAME))
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--pairs", type=int, default=10, help="of a session")
    parser.add_argument("--sessions", type=int, default=4, help="of a program and way")
    parser.add_argument("--step", type=float, default=1.0)
    parser.add_argument("--data", type=float, default=1.0)
    parser.add_argument("--judged", action="store_true", help="let pairs end when they decide")
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    if not arguments.table:
        sessions = list(
            itertools.product(arguments.programs.split(","), arguments.ways.split(","))
        )
        for _ in range(arguments.sessions):
            for program, way in random.sample(sessions, len(sessions)):
                add(arguments, program, way)
    print(table(arguments.folder / "pairs.jsonl"))
    return 0


def add(arguments: argparse.Namespace, name: str, way: str) -> None:
    """Make a session, and add what it measured to the file."""
    begin_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="spread-") as folder:
        written = _session(Path(folder), arguments, name, way)
    line = {
        "program": name,
        "way": way,
        "step": arguments.step,
        "data": arguments.data,
        "time": time.time(),
        "elapsed_s": time.monotonic() - begin_s,
        **written,
    }
    print(name, way, line.get("verdict"), [round(100 * d, 2) for d in line["differences"]])
    steps = line.pop("steps", [])
    with gzip.open(arguments.folder / "steps.jsonl.gz", "at") as file:
        file.write(json.dumps({"program": name, "way": way, "steps": steps}) + "\n")
    with (arguments.folder / "pairs.jsonl").open("a") as lines:
        lines.write(json.dumps(line) + "\n")


def _session(folder: Path, arguments: argparse.Namespace, name: str, way: str) -> dict[str, Any]:
    program = PROGRAMS_BY_NAME[name]
    shutil.copy(PROGRAMS / program.file, folder)
    (folder / "unfrozen.py").write_text(_UNFROZEN)
    (folder / ".gitignore").write_text(".dlperf\nout\n__pycache__\n")
    runs = "" if arguments.judged else f"runs={arguments.pairs}, max_runs={arguments.pairs}, "
    (folder / "test_spread.py").write_text(
        "import pytest\nfrom pytest_dlperf import pattern\n\n"
        f"@pytest.mark.dlperf({program.marker}, {runs}batch_size_per_device=64, "
        f'layout="{program.layout}", loss="finite", suite="{name}")\n'
        "def test_spread(dlperf):\n    dlperf.run()\n"
    )
    (folder / "amount.py").write_text(_AMOUNT.format(step=_STEP, data=_DATA))
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.com")
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "before"]):
        subprocess.run([*git, *words], cwd=folder, check=True)
    now = _AMOUNT.format(step=round(_STEP * arguments.step), data=round(_DATA * arguments.data))
    (folder / "amount.py").write_text(f"{now}# now\n")
    words = [
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly",
        "--dlperf-against=HEAD", "--dlperf-explain=never", "--dlperf-json=results.json",
        f"--dlperf-timeout={_TIMEOUT_S}", *WAYS[way],
    ]  # fmt: skip
    with contextlib.ExitStack() as stack:
        if program.layout.startswith("2n"):
            lab = stack.enter_context(contextlib.closing(Lab(one_core=True)))
            lab.delay(_DELAY_S)
            words += [f"--dlperf-ssh=ssh -F {lab.ssh_config}", "--dlperf-hosts=node1:1,node2:1"]
            words = lab.on(1, *words, folder=folder)
        output = subprocess.run(
            words, cwd=folder, capture_output=True, text=True, check=False,
            env={**os.environ, "PYTHONPATH": str(folder)},
        )  # fmt: skip
    results = folder / "results.json"
    if not results.exists():
        return {"differences": [], "error": output.stdout[-3000:] + output.stderr[-2000:]}
    [outcome] = json.loads(results.read_text())["outcomes"]
    now_runs, before_runs = (
        (side or {}).get("runs", ())
        for side in (outcome.get("measurement"), (outcome.get("against") or {}).get("measurement"))
    )
    return {
        "verdict": outcome["judgement"]["verdict"],
        "reason": outcome["judgement"].get("reason", ""),
        "problems": [p["code"] for p in (outcome.get("measurement") or {}).get("problems", ())],
        "turns": [len(run.get("turns", ())) for run in now_runs],
        "differences": [difference(*pair) for pair in zip(now_runs, before_runs, strict=True)],
        "steps": [
            {side: [run.get("turns", ()), [float(f"{s:.4g}") for s in run["step_seconds"]]]
             for side, run in (("now", now), ("before", before))}
            for now, before in zip(now_runs, before_runs, strict=True)
        ],
    }  # fmt: skip


def difference(now: dict[str, Any], before: dict[str, Any]) -> float:
    """Return the log of how much longer the median step of now is: by turns, where it has such."""
    steps = now["step_seconds"], before["step_seconds"]
    turns = now.get("turns") or (), before.get("turns") or ()
    if not turns[0] or len(turns[0]) != len(turns[1]):
        first = now.get("first_step", 0)
        return math.log(statistics.median(steps[0][first:]) / statistics.median(steps[1][first:]))
    # Turns by time have other numbers of iterations in each arm
    of_turns = [
        [
            statistics.median(steps_s[begin:end])
            for begin, end in itertools.pairwise([*first_steps, len(steps_s)])
        ]
        for steps_s, first_steps in zip(steps, turns, strict=True)
    ]
    return statistics.median(math.log(a / b) for a, b in zip(*of_turns, strict=True))


def table(path: Path) -> str:
    """Return standard deviation and mean of the differences, in percent, by program and way."""
    by_kind: dict[tuple[str, float, float], dict[str, list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for text in path.read_text().splitlines():
        line = json.loads(text)
        kind = line["program"], line["step"], line["data"]
        by_kind[kind][line["way"]] += line["differences"]
    rows = [f"| program | planted | {' | '.join(WAYS)} |", f"|---|---|{'---|' * len(WAYS)}"]
    for (program, step, data), ways in by_kind.items():
        planted = ", ".join(
            f"{name} {share:g}" for name, share in (("step", step), ("data", data)) if share != 1
        )
        cells = [_cell(ways[way]) for way in WAYS]
        rows.append(f"| {program} | {planted or 'nothing'} | {' | '.join(cells)} |")
    return "\n".join(rows)


def _cell(differences: list[float]) -> str:
    if len(differences) < 2:
        return "--"
    spread, mean = (100 * f(differences) for f in (statistics.stdev, statistics.fmean))
    return f"{spread:.1f} % ({mean:+.1f} %, {len(differences)} pairs)"


if __name__ == "__main__":
    sys.exit(main())
