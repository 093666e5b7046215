"""Runs the named benchmarks, or all: ``python benchmarks/run.py [loop|collect|first|logs]``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

SCRIPTS: Final = {
    "loop": "loop_overhead.py",
    "collect": "collect_cost.py",
    "first": "first_iteration.py",
    "logs": "log_speed.py",
}


def main() -> int:
    """Run each benchmark in a process of its own; return 1 if one fails."""
    code = 0
    for name in sys.argv[1:] or SCRIPTS:
        if name not in SCRIPTS:
            print(f"unknown benchmark {name!r}; known: {', '.join(SCRIPTS)}", file=sys.stderr)
            return 2
        print(f"== {name}", flush=True)
        script = Path(__file__).with_name(SCRIPTS[name])
        code |= subprocess.run([sys.executable, str(script)], check=False).returncode
    return code


if __name__ == "__main__":
    sys.exit(main())
