"""The first session on a GPU: every path that was built without one, once.

By hand, from a checkout, on a machine with one NVIDIA GPU and PyTorch::

    python benchmarks/first_gpu.py --out=gpu                # all steps, about an hour
    python benchmarks/first_gpu.py --out=gpu --only=paths --limit=570
    python benchmarks/first_gpu.py --list                   # what each step runs

Each step is a command with its own log and, where it is a session, its results file below the
folder of ``--out``. One that fails does not end the others. A step for which ``--limit`` leaves
too little time is said to be left out. ``--cpu`` tries the session itself on a machine without a
GPU: tiny sizes, one CPU process, few iterations.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
PATHS: Final = "benchmarks/gpu_paths"
#: Seconds that a command gets to end by itself once its time is over.
_GRACE_S: Final = 60.0
#: With fewer seconds left no command is begun.
_LEAST_S: Final = 20.0


class Command(NamedTuple):
    """One command of a step."""

    name: str
    argv: tuple[str, ...]
    limit_s: float
    #: Whether it is a pytest session with results.
    is_session: bool = False
    env: Mapping[str, str] = {}
    #: Computes on the GPU meanwhile.
    beside: tuple[str, ...] = ()


class Device(NamedTuple):
    """What the session runs on."""

    size: str
    #: Options and variables of every session.
    asked: tuple[str, ...]
    env: Mapping[str, str] = {}


GPU: Final = Device("full", ("--gpus=1",))
CPU: Final = Device(
    "tiny",
    ("--cpus=1", "--dlperf-iterations=20", "--dlperf-warmup=10"),
    {"FIRST_GPU_ON_CPU": "1"},
)


def session(name: str, limit_s: float, *words: str, env: Mapping[str, str] = {}) -> Command:
    """Return a session of pytest; its results file and folder are added where it runs."""
    argv = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", *words)
    return Command(name, argv, limit_s, is_session=True, env=env)


def steps(device: Device, out: Path) -> dict[str, list[Command]]:
    """Return the commands by step, the most useful steps first."""
    paths = (PATHS, *device.asked)
    once = ("--dlperf-runs=1", "--dlperf-max-runs=1")
    suites = ("perf_tests", "--dlperf-framework=torch", *once, *device.asked)
    noise = (PATHS, "-k", "test_noise", *device.asked)
    baselines = f"--dlperf-baselines={out / 'baselines'}"
    plain = (*paths, *once, "-k", "test_path_plain_bf16")
    python = sys.executable
    return {
        "facts": [
            Command("nvidia-smi", ("nvidia-smi", "-q"), 30),
            Command("topology", ("nvidia-smi", "topo", "-m"), 30),
            Command("packages", (python, "-m", "pip", "list"), 60),
            Command("doctor", (python, "-m", "pytest_dlperf.cli", "doctor"), 60),
        ],
        # Compiled, captured, sharded, marked, each precision, TF32 turned on in secret
        "paths": [session("paths", 500, *paths, *once, "-k", "test_path")],
        "faults": [session("faults", 300, *paths, *once, "-k", "test_fault")],
        "suites": [session("suites", 560, *suites, f"--dlperf-size={device.size}")],
        # Where the host is what is measured
        "tiny": [session("tiny", 300, *suites, "--dlperf-size=tiny")],
        # Bounds of drift and canary, with and without ten seconds of warm-up
        "stored": [session("stored", 560, *noise, baselines, "--dlperf-runs=5",
                           "--update-baselines")],
        "judged": [session("judged", 560, *noise, baselines, "--dlperf-runs=5")],
        "planted": [session("planted", 560, *noise, baselines, "--dlperf-runs=5",
                            "--dlperf-inject=3%")],
        "knobs": [Command("knobs", (python, f"{PATHS}/knobs.py", f"--size={device.size}"), 560)],
        "busy": [
            command._replace(beside=(python, f"{PATHS}/occupy.py", "60"))
            for command in (
                session("refused", 90, *plain, "--dlperf-busy-gpus=refuse"),
                session("ignored", 90, *plain, "--dlperf-busy-gpus=ignore"),
            )
        ],
        # None, too many, one that is not there; the GPU itself by its number
        "devices": [
            session(f"devices-{words}", 90, *plain, env={"CUDA_VISIBLE_DEVICES": visible})
            for words, visible in (("0", "0"), ("0-1", "0,1"), ("none", ""), ("7", "7"))
        ],
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the steps, print a line for each command, and return 0, or 2 for wrong arguments."""
    options = _parser().parse_args(arguments)
    device, out = CPU if options.cpu else GPU, Path(options.out).resolve()
    by_step = steps(device, out)
    if unknown := [name for name in options.only if name not in by_step]:
        print(f"unknown step {', '.join(unknown)}; known: {', '.join(by_step)}", file=sys.stderr)
        return 2
    chosen = {name: by_step[name] for name in options.only or by_step}
    if options.list:
        for name, commands in chosen.items():
            for command in commands:
                argv = " ".join(command.argv)
                print(f"{name}: {command.name}, at most {command.limit_s:g} s: {argv}")
        return 0
    out.mkdir(parents=True, exist_ok=True)
    end_s = time.monotonic() + options.limit
    for commands in chosen.values():
        for command in commands:
            with_device = command._replace(env={**device.env, **command.env})
            _run(with_device, out, end_s - time.monotonic())
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--out", default="first-gpu", help="folder of logs and results")
    parser.add_argument(
        "--only",
        type=lambda text: text.split(","),
        default=[],
        metavar="STEPS",
        help="steps with commas between them",
    )
    parser.add_argument(
        "--limit", type=float, default=7200.0, metavar="SECONDS", help="time of all steps together"
    )
    parser.add_argument("--cpu", action="store_true", help="try it without a GPU")
    parser.add_argument("--list", action="store_true", help="print the commands alone")
    return parser  # fmt: skip


def _run(command: Command, out: Path, left_s: float) -> None:
    """Run a command, and print how it ended and what its cases became."""
    if left_s < _LEAST_S:
        print(f"{command.name}: left out, {left_s:.0f} s are left", flush=True)
        return
    argv, results = [*command.argv], out / f"{command.name}.json"
    if command.is_session:
        argv += [f"--dlperf-json={results}", f"--dlperf-workdir={out / 'runs' / command.name}"]
    python_path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    env = {**os.environ, "PYTHONPATH": python_path, **command.env}
    log = out / f"{command.name}.log"
    begin_s = time.monotonic()
    beside = subprocess.Popen(command.beside, cwd=ROOT, env=env) if command.beside else None
    try:
        ended = _until(argv, env, log, min(command.limit_s, left_s))
    finally:
        if beside is not None:
            beside.kill()
            beside.wait()
    print(f"{command.name}: {ended} after {time.monotonic() - begin_s:.0f} s, {log}", flush=True)
    if command.is_session:
        _print_outcomes(results)


def _until(argv: Sequence[str], env: Mapping[str, str], log: Path, limit_s: float) -> str:
    """Return how a command ended; one that takes longer gets SIGTERM.

    SIGINT is ignored by what a shell has started in the background.
    """
    with log.open("wb") as file:
        try:
            process = subprocess.Popen(
                argv, cwd=ROOT, env=env, stdout=file, stderr=subprocess.STDOUT
            )
        except OSError as error:
            return f"not started ({error.strerror})"
        try:
            return f"exit code {process.wait(limit_s)}"
        except subprocess.TimeoutExpired:
            process.terminate()
        try:
            return f"ended by SIGTERM, exit code {process.wait(_GRACE_S)}"
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return "killed"


def _print_outcomes(results: Path) -> None:
    if not results.exists():
        print("  no results file", flush=True)
        return
    outcomes = json.loads(results.read_text(encoding="utf-8"))["outcomes"]
    verdicts = Counter(outcome["judgement"]["verdict"] for outcome in outcomes)
    print("  " + ", ".join(f"{count} {name}" for name, count in verdicts.most_common()))
    for outcome in outcomes:
        judgement, measurement = outcome["judgement"], outcome["measurement"]
        rate = f"{measurement['throughput']:.4g}/s" if measurement else "no measurement"
        reason = judgement["reason"][:160]
        print(f"  {outcome['case']['id']}: {rate}, {judgement['verdict']}: {reason}")


if __name__ == "__main__":
    sys.exit(main())
