"""``python -m pytest_dlperf.worker.sampled_program``: a program that is sampled by py-spy.

It becomes the program of one rank, which marks no steps. A process that it leaves behind samples
that rank for some seconds of its window, and writes the stacks as the rank's profile.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from pathlib import Path
from typing import NoReturn

from pytest_dlperf.core.wire_profile import ProfileRecord
from pytest_dlperf.worker import host_stacks
from pytest_dlperf.worker.frameworks.profiling import public
from pytest_dlperf.worker.records import RecordWriter


def main() -> NoReturn:
    """Start what samples, and become the program."""
    parser = argparse.ArgumentParser(prog="python -m pytest_dlperf.worker.sampled_program")
    parser.add_argument("--records", type=Path, required=True)
    parser.add_argument("--rank-from", required=True, help="variable with the rank's number")
    parser.add_argument("--begin-s", type=float, required=True, help="from the start of the rank")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--step-s", type=float, required=True)
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    rank = int(os.environ.get(arguments.rank_from) or 0)
    pid = os.getpid()
    host_stacks.allow_tracing()
    child = os.fork()
    if child == 0:
        # A child of its own would be one that the program may wait for
        if os.fork() == 0:
            record = _sampled(pid, rank, arguments)
            # One that is read by its log may have marks all the same, which profile its steps
            with contextlib.suppress(FileExistsError):
                records = RecordWriter(arguments.records, rank, exclusive=True)
                records.write(profile=public(record))
        os._exit(0)
    os.waitpid(child, 0)
    sys.stdout.flush()
    os.execvp(arguments.command[0], arguments.command)


def _sampled(pid: int, rank: int, arguments: argparse.Namespace) -> ProfileRecord:
    sampler = host_stacks.sampler(arguments.records, rank, pid)
    if sampler is None:
        return ProfileRecord(
            problem="the program marks no steps, and there is no py-spy that would sample its "
            "stacks: mark them (pytest_dlperf.mark.step), or pip install py-spy beside its Python"
        )
    time.sleep(arguments.begin_s)
    sampler.start()
    time.sleep(arguments.seconds)
    try:
        stacks = sampler.stop(arguments.seconds / arguments.step_s)
    except (OSError, ValueError) as error:
        return ProfileRecord(problem=f"no host stacks: {error}")
    return ProfileRecord(stacks=stacks)


if __name__ == "__main__":
    main()
