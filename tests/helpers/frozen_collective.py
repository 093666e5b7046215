"""Ranks that are within collectives all the time, of which all or one are frozen for a while."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.helpers.frozen_run import FrozenRun

#: Begins each rank's program: ``count(rank)`` says that it has done another collective.
COUNT = """
import os, sys
from pathlib import Path

done = 0

def count(rank):
    global done
    done += 1
    partial = Path(sys.argv[1], f"partial-{os.getpid()}")
    partial.write_bytes(done.to_bytes(8, "big"))
    partial.rename(Path(sys.argv[1], f"count-{os.getpid()}"))
"""


def freeze_within_collectives(
    folder: Path, command: Sequence[str], who: str, for_s: float, **process: Any
) -> None:
    """Freeze ``all``, or the ``first`` or the ``last`` rank of two; check that both go on then."""
    with FrozenRun(folder, command, "signals", **process) as run:
        run.wait_until_it_counts(2)
        if who == "all":
            assert run.order("freeze") == ""
            assert run.stands_still()
            time.sleep(for_s)
            run.order("thaw")
        else:
            pid = {"first": min, "last": max}[who](run.pids())
            os.kill(pid, signal.SIGSTOP)
            time.sleep(for_s)
            os.kill(pid, signal.SIGCONT)
        for _ in range(5):  # who misses a heartbeat may see that later
            run.wait_until_it_counts(2)
            time.sleep(1)
        assert len(run.pids()) == 2
