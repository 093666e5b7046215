"""``python -m pytest_dlperf.worker.sampled_program``: a program that is sampled by py-spy.

It becomes the program of one rank, which marks no steps. A process that it leaves behind samples
that rank until it ends, and writes the stacks of the middle as the rank's profile.
"""

from __future__ import annotations

import argparse
import itertools
import os
import time
from pathlib import Path
from typing import Final, NoReturn

from pytest_dlperf.core.wire_profile import HostStack, ProfileRecord
from pytest_dlperf.worker import host_stacks
from pytest_dlperf.worker.frameworks.profiling import public
from pytest_dlperf.worker.records import RecordWriter

#: Seconds of a sample, or those of a step where that is longer.
_SECONDS: Final = 1.0
#: Samples that count, those in the middle of the program's life: it may build, or evaluate, in
#: the first and in the last.
_COUNTED: Final = 3


def main() -> NoReturn:
    """Start what samples, and become the program."""
    parser = argparse.ArgumentParser(prog="python -m pytest_dlperf.worker.sampled_program")
    parser.add_argument("--records", type=Path, required=True)
    parser.add_argument("--rank-from", required=True, help="variable with the rank's number")
    parser.add_argument("--step-s", type=float, required=True)
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    pid = os.getpid()
    host_stacks.allow_tracing()
    child = os.fork()
    if child == 0:
        # A child of its own would be one that the program may wait for
        if os.fork() == 0:
            rank = int(os.environ.get(arguments.rank_from) or 0)
            _write_samples(pid, arguments.records, rank, arguments.step_s)
        os._exit(0)
    os.waitpid(child, 0)
    os.execvp(arguments.command[0], arguments.command)


def _write_samples(pid: int, folder: Path, rank: int, step_s: float) -> None:
    """Sample ``pid`` until it ends; after each sample write what counts, the last record does."""
    records: RecordWriter | None = None
    samples: list[list[HostStack]] = []
    seconds = max(_SECONDS, step_s)
    while True:
        record = _sampled(pid, folder, rank, samples, seconds, step_s)
        if record is None:
            return
        if records is None:
            try:
                records = RecordWriter(folder, rank, exclusive=True)
            except FileExistsError:
                return  # it is read by its log and has marks all the same: they profile its steps
        records.write(profile=public(record))
        if "problem" in record:
            return


def _sampled(
    pid: int,
    folder: Path,
    rank: int,
    samples: list[list[HostStack]],
    seconds: float,
    step_s: float,
) -> ProfileRecord | None:
    """Add a sample, and return the record of those that count; None if the process has ended."""
    sampler = host_stacks.sampler(folder, rank, pid)
    if sampler is None:
        return ProfileRecord(
            problem="the program marks no steps, and there is no py-spy that would sample its "
            "stacks: mark them (pytest_dlperf.mark.step), or pip install py-spy beside its Python"
        )
    sampler.start()
    time.sleep(seconds)
    try:
        sample = sampler.stop(seconds / step_s)
    except (OSError, ValueError) as error:
        return None if samples else ProfileRecord(problem=f"no host stacks: {error}")
    if not Path(f"/proc/{pid}").exists():
        return None  # it was no whole one
    samples.append(sample)
    first = max(0, (len(samples) - _COUNTED) // 2)
    return ProfileRecord(stacks=_mean(samples[first : first + _COUNTED]))


def _mean(samples: list[list[HostStack]]) -> list[HostStack]:
    seconds: dict[str, float] = {}
    for stack in itertools.chain(*samples):
        share = stack["seconds"] / len(samples)
        seconds[stack["frames"]] = seconds.get(stack["frames"], 0.0) + share
    stacks = [HostStack(frames=frames, seconds=time_s) for frames, time_s in seconds.items()]
    return sorted(stacks, key=lambda stack: -stack["seconds"])


if __name__ == "__main__":
    main()
