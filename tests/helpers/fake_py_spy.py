"""A py-spy that samples nothing: it writes a stack when it is interrupted."""

from __future__ import annotations

import sys
from pathlib import Path

_TEXT = f"""#!{sys.executable}
import os, signal, sys, time
[file] = [word.partition("=")[2] for word in sys.argv if word.startswith("--output=")]
def write(*_):
    with open(file, "w") as stacks:
        count = os.environ.get("FAKE_SAMPLES", "30")
        stacks.write('thread (7): "MainThread";<module> (/a/b/train.py:9) ' + count + "\\n")
    raise SystemExit
signal.signal(signal.SIGINT, write)
print("py-spy> Sampling process 100 times a second.", flush=True)
while True:
    time.sleep(0.01)  # a pause would not end by a signal that came just before it
"""


def write_py_spy(folder: Path) -> None:
    """Write it as ``py-spy`` into ``folder``; ``FAKE_SAMPLES`` says how often a frame is seen."""
    program = folder / "py-spy"
    program.write_text(_TEXT, encoding="utf-8")
    program.chmod(0o755)
