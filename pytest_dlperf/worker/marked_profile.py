"""Profiles steps of a user's own program, which goes on to train after its measured window.

The ranks do not ask each other: each profiles as many steps as the pytest side says.
"""

from __future__ import annotations

import atexit
import importlib
import sys
import time
from pathlib import Path
from typing import Final

from pytest_dlperf.core.frameworks import FRAMEWORKS
from pytest_dlperf.core.wire import MarkSettings
from pytest_dlperf.core.wire_profile import ProfiledSteps, ProfileRecord
from pytest_dlperf.core.wire_records import MomentRecord
from pytest_dlperf.worker.frameworks import profiling
from pytest_dlperf.worker.frameworks.profiling import Profiling, Ranks
from pytest_dlperf.worker.marked_device import Device
from pytest_dlperf.worker.records import RecordWriter

_LONGER: Final = "{iterations} in a word of the command is that number in launches with a profile"


class MarkedProfile:
    """The profile of this rank, from the end of its last measured step on.

    What is known is written at once, since the program may end with any step; the last record
    counts. A profiler that fails is a problem of the profile, and never one of the program.
    """

    def __init__(self, settings: MarkSettings, records: RecordWriter, device: Device) -> None:
        steps = ProfiledSteps(settings.profiled_steps, settings.sampled_steps)
        self._records = records
        self._until = settings.iterations + steps.in_all
        self._has_profile = False
        self._is_over = False
        problem = (
            f"the program ended before its steps were profiled: it must train {self._until} "
            f"iterations ({_LONGER})"
        )
        records.write(profile=ProfileRecord(problem=problem))
        ranks = Ranks(rank=records.rank, synchronise=device.synchronise, mean=float, steps=steps)
        self._profiling = _profiling(settings, Path(settings.records), ranks)
        atexit.register(self._profiling.close)
        self.step_ended()

    def step_ended(self) -> None:
        """Say that the program did a step: one that is profiled, once the profile has begun."""
        if self._is_over:
            return
        try:
            record = next(self._profiling)
        except StopIteration as end:
            self._finish(end.value)
        except Exception as error:  # noqa: BLE001  # the profiler's own, whatever it is
            self._finish(ProfileRecord(problem=f"{type(error).__name__}: {error}"))
        else:
            if record and not self._has_profile:
                self._has_profile = True
                note = (
                    "the program ended before allocations and host stacks were recorded: it must "
                    f"train {self._until} iterations ({_LONGER})"
                )
                so_far: ProfileRecord = {**record, "note": note}
                self._records.write(profile=profiling.public(so_far))

    def _finish(self, record: ProfileRecord) -> None:
        self._is_over = True
        self._records.write(profile=profiling.public(record))
        self._records.write(end=MomentRecord(time=time.time()))
        self._records.close()


def _profiling(settings: MarkSettings, folder: Path, ranks: Ranks) -> Profiling:
    """Return the profile by the framework that the program has imported, the case's before others.

    Without any it is one of host stacks alone.
    """
    for name in (settings.framework, *FRAMEWORKS):
        if name in sys.modules and FRAMEWORKS[name].has_profiles:
            module = importlib.import_module(f"pytest_dlperf.worker.frameworks.{name}.profile")
            profiled: Profiling = module.profile_program(folder, ranks, on_gpu=settings.on_gpu)
            return profiled
    return _stacks_alone(folder, ranks)


def _stacks_alone(folder: Path, ranks: Ranks) -> Profiling:
    record = ProfileRecord()
    notes = yield from profiling.add_stacks(record, ranks, 0.0, folder)
    if "stacks" in record:
        return record
    return ProfileRecord(
        problem=notes[0]
        if notes
        else "the program has imported no framework, and there is no py-spy that would sample "
        "its stacks (pip install py-spy, beside its Python)"
    )
