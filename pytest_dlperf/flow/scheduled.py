"""Cases that run as jobs of a scheduler: each in a pytest of its own, inside of its job."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import Final

from pytest_dlperf.cases.possible import check_possible
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import CaseError, DlperfError, NotRunError
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.scheduling import IN_JOB, Scheduling
from pytest_dlperf.core.verdict import Judgement, Verdict
from pytest_dlperf.flow.target_report import UNKNOWN_DEVICES, TargetReport, read_report
from pytest_dlperf.flow.watcher import Watcher
from pytest_dlperf.launch.schedulers.heartbeat import Heartbeat
from pytest_dlperf.launch.schedulers.slurm_job import JobRequest
from pytest_dlperf.launch.schedulers.slurm_queue import Job, SlurmQueue
from pytest_dlperf.measure.devices import Devices
from pytest_dlperf.report import json_

_PROBE: Final = "probe"
_PROBE_S: Final = 600.0
#: Seconds of a job beyond its runs: pytest's start and end, canaries, file systems.
_MARGIN_S: Final = 600.0


@dataclass(kw_only=True)
class Jobs:
    """Submits the cases of a session in their order, and takes their outcomes."""

    scheduling: Scheduling
    #: Folder of the session, and of all sessions.
    folder: Path
    workdir: Path
    rootdir: Path
    #: Where pytest was typed: options may name files from there.
    cwd: Path
    python: str
    #: Beside the test's name: what this pytest was given that decides how a case is measured.
    options: tuple[str, ...]
    exported: tuple[str, ...]
    share_host: bool
    frameworks_asked: tuple[str, ...]
    against: bool
    #: Whether ranks start behind a prefix, where the job alone can look.
    behind_prefix: bool
    runs_nothing: bool
    watcher: Watcher
    planned: Sequence[Planned] = ()
    _submitted: dict[str, Job | CaseError] = field(default_factory=dict)
    _heartbeat: Heartbeat | None = None

    @cached_property
    def queue(self) -> SlurmQueue:
        """The jobs; from here on this session gives a sign of life."""
        self._heartbeat = Heartbeat(self._beats)
        return SlurmQueue(queue_timeout_s=self.scheduling.queue_timeout_s)

    @property
    def _beats(self) -> Path:
        return self.folder / "heartbeat"

    @cached_property
    def target(self) -> TargetReport | CaseError | None:
        """What a job on a node of the target told, or why none could; None if none was asked."""
        if self.runs_nothing:
            return None
        folder = self.folder / _PROBE
        results = folder / "target.json"
        command = (self.python, "-m", "pytest_dlperf.flow.target_report", str(results))
        request = self._request(_PROBE, folder, command, time_s=_PROBE_S)
        try:
            self._await(self.queue.submit(request), results)
            return read_report(results)
        except CaseError as error:
            return error

    @property
    def devices(self) -> Devices:
        """The devices of the target's nodes."""
        target = self.target
        if target is None or isinstance(target, CaseError):
            return UNKNOWN_DEVICES
        return target.devices

    @property
    def was_asked(self) -> bool:
        """Whether a case has asked for the target already."""
        return "target" in self.__dict__

    @property
    def knows_target(self) -> bool:
        """Whether the devices are those of a node that was asked."""
        return not (self.target is None or isinstance(self.target, CaseError))

    def outcome(self, case: Case) -> Outcome:
        """Return the outcome of ``case`` in its job, waiting for it; an error is one as well."""
        planned = next(one for one in self.planned if one.case.id == case.id)
        try:
            self._check(planned)
            if case.id not in self._submitted:
                self._submit(planned)
            self._submit_ahead()
            job = self._submitted[case.id]
            if isinstance(job, CaseError):
                raise job
            results = self._results(case)
            self._await(job, results)
            return self._taken(case, job, results)
        except NotRunError as error:
            judgement = Judgement(verdict=Verdict.NOT_RUN, reason=str(error))
        except DlperfError as error:
            judgement = Judgement(verdict=Verdict.ERROR, reason=str(error))
        return Outcome(
            case=case,
            judgement=judgement,
            time=datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            folder=str(self.folder / case.id),
        )

    def close(self) -> str:
        """Cancel what has not ended; return why that failed, empty if it did not."""
        if self._heartbeat is None:
            return ""
        failed = self.queue.cancel_all()
        self._heartbeat.stop()
        return failed

    def pytest_command(self, planned: Planned) -> tuple[str, ...]:
        """Return the command that runs just this case, but for where its files go."""
        family = (f"--dlperf-family={len(self.planned)}",) if self.against else ()
        # The family first: one that the user gave counts
        return (
            self.python,
            "-m",
            "pytest",
            str(self.rootdir / planned.node_id),
            f"--rootdir={self.rootdir}",
            *family,
            *self.options,
            f"--dlperf-scheduler={IN_JOB}",
        )

    def request(self, planned: Planned) -> JobRequest:
        """Return the job of a case."""
        case, folder = planned.case, self.folder / planned.case.id
        command = (
            *self.pytest_command(planned),
            "-o",
            f"cache_dir={folder / 'pytest-cache'}",
            f"--dlperf-json={self._results(case)}",
            f"--dlperf-workdir={folder / 'work'}",
        )
        return self._request(case.id, folder, command, time_s=self.time_s(case), case=case)

    def _request(
        self,
        name: str,
        folder: Path,
        command: tuple[str, ...],
        *,
        time_s: float,
        case: Case | None = None,
    ) -> JobRequest:
        return JobRequest(
            name=name,
            layout=case.layout if case else None,
            command=command,
            folder=folder,
            cwd=self.cwd,
            needs=tuple(dict.fromkeys((self.rootdir, self.cwd))),
            heartbeat=self._beats,
            time_s=time_s,
            exclusive=not self.share_host,
            exported=self.exported,
            sbatch_options=self.scheduling.words,
        )

    def time_s(self, case: Case) -> float:
        """Return the longest that a case may take: all its runs, and those that go with them."""
        arms = 2 if self.against or case.parent() else 1
        return case.protocol.max_runs * arms * case.protocol.timeout_s + _MARGIN_S

    def _results(self, case: Case) -> Path:
        return self.folder / case.id / "results.json"

    def _check(self, planned: Planned) -> None:
        """Raise if a case cannot run on the target, whatever is tried."""
        target = self.target
        if isinstance(target, CaseError):
            raise target
        if planned.misfit:
            raise CaseError(f"{planned.case.id}: {planned.misfit}")
        if target is None or self.behind_prefix:
            return
        capabilities = [
            gpu.compute_capability for gpu in target.devices.gpus if gpu.compute_capability
        ]
        try:
            check_possible(
                planned.case,
                compute_capability=min(capabilities, default=None),
                framework_known=bool(planned.case.command),
                installed=target.installed,
            )
        except NotRunError as error:
            if planned.case.framework in self.frameworks_asked:
                raise CaseError(f"{planned.case.id}: {error}") from error
            raise

    def _submit_ahead(self) -> None:
        """Submit the next cases, as many as may be in flight."""
        for planned in self.planned:
            if self.queue.in_flight >= self.scheduling.jobs:
                return
            if planned.case.id in self._submitted:
                continue
            try:
                self._check(planned)
            except DlperfError:
                continue  # its test says why
            self._submit(planned)

    def _submit(self, planned: Planned) -> None:
        while self.queue.in_flight >= self.scheduling.jobs:
            self.watcher.queued(planned.case.id, "waits for other jobs of this session")
            self.queue.look()
            time.sleep(1)
        try:
            job: Job | CaseError = self.queue.submit(self.request(planned))
        except CaseError as error:
            job = error
        self._submitted[planned.case.id] = job

    def _await(self, job: Job, results: Path) -> None:
        name = job.request.name
        between = self._submit_ahead if self.planned else _nothing
        self.queue.wait(
            job, results, report=lambda text: self.watcher.queued(name, text), between=between
        )

    def _taken(self, case: Case, job: Job, results: Path) -> Outcome:
        """Return the outcome that a job wrote."""
        found = [outcome for outcome in json_.read(results) if outcome.case.id == case.id]
        if not found:
            raise CaseError(
                f"{case.id}: the pytest of job {job.number} came to no outcome; it skipped the "
                f"test, or failed before it began: {job.request.log}"
            )
        # What the outer session decides is not decided inside
        return replace(found[0], failed=False, update="")


@dataclass(frozen=True, kw_only=True, slots=True)
class Planned:
    """A case of this session, and the test that runs it."""

    case: Case
    node_id: str
    #: Why it cannot run although it was asked for.
    misfit: str = ""


def _nothing() -> None:
    """Do nothing between two looks at a job."""
