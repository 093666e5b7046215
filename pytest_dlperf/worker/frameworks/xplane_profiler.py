"""Records steps by the profilers of JAX and of TensorFlow, which write the same files."""

from __future__ import annotations

import gzip
import json
import shutil
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pytest_dlperf.core.wire_profile import LiveMemory, ProfileRecord
from pytest_dlperf.worker.frameworks import profiling
from pytest_dlperf.worker.frameworks.base import Framework
from pytest_dlperf.worker.step_parts import DATA_EVENT, TraceEvent
from pytest_dlperf.worker.xplane import XSpace

#: Of a file that is read; its events take some ten times as much memory.
_MOST_BYTES: Final = 128 * 2**20


@dataclass(kw_only=True)
class XplaneProfiler:
    """A profiler that writes ``*.xplane.pb`` below a folder; follows ``profiling.Profiler``."""

    name: str
    #: The folder of the run.
    folder: Path
    #: Begins to record, to a folder.
    begin: Callable[[str], None]
    #: Ends the recording, and writes it.
    end: Callable[[], None]
    annotate: Callable[[str], AbstractContextManager[Any]]
    #: Finds the events that matter.
    events_of: Callable[[XSpace], list[TraceEvent]]
    _written: Path | None = None
    _space: XSpace = field(default_factory=lambda: XSpace(b""))

    def start(self) -> None:
        """Begin to record."""
        self._written = Path(tempfile.mkdtemp(prefix="profile-", dir=self.folder))
        try:
            self.begin(str(self._written))
        except BaseException:
            shutil.rmtree(self._written)
            raise

    def stop(self) -> list[TraceEvent]:
        """End the recording, and return its events; raise ``ValueError`` for one too large."""
        assert self._written is not None, "start() comes before it"
        try:
            self.end()
            files = list(self._written.rglob("*.xplane.pb"))
            if len(files) != 1:
                raise ValueError(f"it wrote {len(files)} files *.xplane.pb, and not one")
            size = files[0].stat().st_size
            if size > _MOST_BYTES:
                raise ValueError(
                    f"its recording has {size >> 20} MB, and one of more than "
                    f"{_MOST_BYTES >> 20} MB is not read"
                )
            self._space = XSpace(files[0].read_bytes())
        finally:
            shutil.rmtree(self._written)
        return self.events_of(self._space)

    def write_trace(self, file: Path) -> None:
        """Write the last recording in the format of Chrome's traces."""
        with gzip.open(file, "wt", encoding="utf-8") as out:
            out.write('{"traceEvents": [\n')
            out.write(",\n".join(json.dumps(event) for event in _chrome_events(self._space)))
            out.write("\n]}\n")

    def live_memory(self) -> Callable[[], LiveMemory] | None:
        """Return None: neither of them says which line allocated what."""
        return None


def _chrome_events(space: XSpace) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    planes: dict[str, int] = {}
    for line in space.lines():
        place = {"pid": planes.setdefault(line.plane, len(planes) + 1), "tid": line.number}
        for kind, name in (("process_name", line.plane), ("thread_name", line.name)):
            events.append({"ph": "M", **place, "name": kind, "args": {"name": name}})
        for event in line.events:
            length_us = event.end_us - event.begin_us
            times = {"ts": round(event.begin_us, 3), "dur": round(length_us, 3)}
            facts = {
                name: value
                for name, value in event.facts.items()
                if not name.startswith("_") and not isinstance(value, bytes)
            }
            events.append({"ph": "X", **place, **times, "name": event.name, "args": facts})
    return events


def annotated(space: XSpace) -> list[TraceEvent]:
    """Return the events of steps, and those of waits for the data that a workload is fed."""
    return [
        TraceEvent(event.name, event.begin_us, event.end_us, thread=line.number)
        for line in space.lines()
        for event in line.events
        if event.name in {profiling.STEP, DATA_EVENT}
    ]


def profile(
    framework: Framework,
    step: Callable[[], Any],
    profiler: XplaneProfiler,
    *,
    on_gpu: bool,
) -> ProfileRecord:
    """Return the parts and the operators of a few steps, with an event for each wait for data."""
    feed = framework.job.feed
    around, feed.around = feed.around, lambda: profiler.annotate(DATA_EVENT)
    try:
        return profiling.profile(framework, step, profiler, profiler.folder, on_gpu=on_gpu)
    finally:
        feed.around = around
