"""Cases that run as jobs of a scheduler: each job runs pytest for one case."""

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
from pytest_dlperf.core.place import IN_JOB, Scheduling
from pytest_dlperf.core.verdict import Judgement, Verdict
from pytest_dlperf.flow.target_report import UNKNOWN_DEVICES, TargetReport, read_report
from pytest_dlperf.flow.watcher import Watcher
from pytest_dlperf.judge.verdict import plain_judgement
from pytest_dlperf.launch.schedulers.slurm_job import Heartbeat, JobRequest
from pytest_dlperf.launch.schedulers.slurm_queue import Job, SlurmQueue
from pytest_dlperf.measure.devices import Devices
from pytest_dlperf.report import json_

_PROBE: Final = "probe"
_PROBE_S: Final = 600.0
#: Seconds of a job beyond its runs: pytest's start and end, canaries, file systems.
_MARGIN_S: Final = 600.0


@dataclass(kw_only=True)
class Jobs:
    """Submits the cases of a session in order, and reads their outcomes."""

    scheduling: Scheduling
    #: Folder of the session, and of all sessions.
    folder: Path
    workdir: Path
    rootdir: Path
    #: Where pytest was started: options may name files relative to it.
    cwd: Path
    python: str
    #: Options of this pytest that decide how a case is measured; the jobs get them too.
    options: tuple[str, ...]
    exported: tuple[str, ...]
    share_host: bool
    frameworks_asked: tuple[str, ...]
    against: bool
    #: Whether pairs may follow the runs of a case in its job.
    confirms: bool
    #: Whether ranks start behind a prefix, so that only the job can see their environment.
    behind_prefix: bool
    runs_nothing: bool
    watcher: Watcher
    #: The cases that can run, and how many the session selected.
    planned: Sequence[Planned] = ()
    selected: int = 0
    _submitted: dict[str, Job | CaseError] = field(default_factory=dict)
    _heartbeat: Heartbeat | None = None

    @cached_property
    def queue(self) -> SlurmQueue:
        """The jobs of this session; the first use starts the heartbeat."""
        self._heartbeat = Heartbeat(self._beats)
        return SlurmQueue(queue_timeout_s=self.scheduling.queue_timeout_s)

    @property
    def _beats(self) -> Path:
        return self.folder / "heartbeat"

    @cached_property
    def target(self) -> TargetReport | CaseError | None:
        """The report of a probe job on the target, or its error; None if nothing is started."""
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
        """Whether the target has been asked already."""
        return "target" in self.__dict__

    @property
    def knows_target(self) -> bool:
        """Whether the target has reported its devices."""
        return not (self.target is None or isinstance(self.target, CaseError))

    def outcome(self, case: Case) -> Outcome:
        """Return the outcome of ``case``, once its job has one; an error becomes an outcome."""
        planned = next(p for p in self.planned if p.case.id == case.id)
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
            judgement = plain_judgement(Verdict.NOT_RUN, str(error))
        except DlperfError as error:
            judgement = plain_judgement(Verdict.ERROR, str(error))
        return self._without_job(case, judgement)

    def refused(self, case: Case, why: str) -> Outcome:
        """Return the outcome of a case that cannot run, and is an error, as ``why`` says."""
        judgement = plain_judgement(Verdict.ERROR, f"{case.id}: {why}")
        return self._without_job(case, judgement)

    def _without_job(self, case: Case, judgement: Judgement) -> Outcome:
        return Outcome(
            case=case,
            judgement=judgement,
            time=datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            folder=str(self.folder / case.id),
        )

    def close(self) -> str:
        """Cancel the jobs that have not ended; return the error, empty if there was none."""
        if self._heartbeat is None:
            return ""
        failed = self.queue.cancel_all()
        self._heartbeat.stop()
        return failed

    def _pytest_command(self, planned: Planned) -> tuple[str, ...]:
        """Return the pytest command of this case, without the options of its output files."""
        family = (f"--dlperf-family={self.selected}",) if self.against else ()
        # The family first, so that an option of the user wins
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
            *self._pytest_command(planned),
            "-o",
            f"cache_dir={folder / 'pytest-cache'}",
            f"--dlperf-json={self._results(case)}",
            f"--dlperf-workdir={folder / 'work'}",
        )
        return self._request(case.id, folder, command, time_s=self._time_s(case), case=case)

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

    def _time_s(self, case: Case) -> float:
        """Return the longest time of a case in seconds: its runs, its parent's, and its pairs."""
        # Of pairs the first may be a trial
        pair_launches = 2 * (case.protocol.max_runs + 1)
        if self.against:
            launches = pair_launches
        else:
            protocol = case.protocol.screening if self.confirms else case.protocol
            launches = protocol.max_runs * (2 if case.parent() else 1)
            launches += pair_launches if self.confirms else 0
        return launches * case.protocol.timeout_s + _MARGIN_S

    def _results(self, case: Case) -> Path:
        return self.folder / case.id / "results.json"

    def _check(self, planned: Planned) -> None:
        """Raise ``DlperfError`` if a case can never run on the target."""
        target = self.target
        if isinstance(target, CaseError):
            raise target
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
                raise CaseError(
                    error.cause, subject=planned.case.id, remedy=error.remedy
                ) from error
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
                f"the pytest of job {job.number} came to no outcome; it skipped the "
                f"test, or failed before it began: {job.request.log}",
                subject=case.id,
            )
        if found[0].interrupted and found[0].judgement.verdict is Verdict.NOT_RUN:
            raise CaseError(
                f"job {job.number} was ended before its case was measured (its time "
                f"limit, a preemption, or somebody cancelled it): {job.request.log}",
                subject=case.id,
            )
        # These two are decided by this session, not by the job's
        return replace(found[0], failed=False, update="")


@dataclass(frozen=True, kw_only=True, slots=True)
class Planned:
    """A case of this session, and the test that runs it."""

    case: Case
    node_id: str


def _nothing() -> None:
    """Do nothing between two looks at a job."""
