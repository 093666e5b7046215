"""Real A/B verdicts, again and again: HEAD against itself, and against itself made slower.

By hand, on a clean working tree, about an hour: ``tox -e bench-against``. A null must never be
``regressed``; what is made 30 % slower must be, nearly always.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def main() -> int:
    """Run both kinds in turn; return 1 where a null was regressed, or more than 1 in 10 missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-k", dest="cases", default="resnet50 and torch and fp32")
    parser.add_argument("--cpus", default="1")
    parser.add_argument("--tries", type=int, default=10)
    parser.add_argument("--max-runs", default="6")
    parser.add_argument("--inject", default="30%")
    parser.add_argument("--output", type=Path, help="write the outcomes here, one JSON line each")
    arguments = parser.parse_args()
    found: dict[str, Counter[str]] = {"null": Counter(), "slower": Counter()}
    for number in range(1, arguments.tries + 1):
        for kind, verdicts in found.items():
            for outcome in _session(arguments, slower=kind == "slower"):
                judgement = outcome["judgement"]
                verdicts[judgement["verdict"]] += 1
                print(
                    f"{number} {kind}: {judgement['verdict']}: {judgement['reason']}", flush=True
                )
                if arguments.output is not None:
                    with arguments.output.open("a", encoding="utf-8") as file:
                        file.write(json.dumps({"kind": kind, "judgement": judgement}) + "\n")
    for kind, verdicts in found.items():
        told = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
        print(f"{kind}: {told or 'nothing was measured'}")
    slower = found["slower"]
    missed = slower.total() - slower["regressed"]
    return 1 if found["null"]["regressed"] or not slower or missed * 10 > slower.total() else 0


def _session(arguments: argparse.Namespace, *, slower: bool) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.json"
        command = [
            *(sys.executable, "-m", "pytest", "perf_tests", "-q", "-k", arguments.cases),
            f"--cpus={arguments.cpus}",
            "--dlperf-against=HEAD",
            f"--dlperf-max-runs={arguments.max_runs}",
            f"--dlperf-json={results}",
            *([f"--dlperf-inject={arguments.inject}"] if slower else []),
        ]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if not results.exists():
            print(done.stdout + done.stderr, file=sys.stderr)
            return []
        outcomes: list[dict[str, Any]] = json.loads(results.read_text("utf-8"))["outcomes"]
        return outcomes


if __name__ == "__main__":
    sys.exit(main())
