"""The jobs of one session in Slurm's queue: submit, poll, wait, cancel; and Slurm's job states.

A job is done when its results file is there. Slurm's state lags behind, and only explains why a
results file is missing.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.writable import last_lines, log_remark
from pytest_dlperf.launch.schedulers import in_job
from pytest_dlperf.launch.schedulers.slurm_job import JobRequest, sbatch_command, script_text

#: States of a job that has not started, and of one that runs. All others are ends.
_WAITING: Final = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SUSPENDED"})
_GOING_ON: Final = frozenset({"RUNNING", "COMPLETING", "STAGE_OUT", "SIGNALING", "STOPPED"})
#: The state of a job that Slurm no longer knows.
GONE: Final = "GONE"
#: Slurm's reasons for waiting that only another request can remove.
_FOREVER: Final = frozenset({
    "PartitionTimeLimit", "PartitionNodeLimit", "BadConstraints", "AccountNotAllowed",
    "QOSNotAllowed", "InvalidAccount", "InvalidQOS", "DependencyNeverSatisfied",
    "AssocGrpCPUMinutesLimit", "AssocMaxWallDurationPerJobLimit", "QOSMaxWallDurationPerJobLimit",
    "QOSMinGRES", "MaxMemPerLimit",
})  # fmt: skip
_ENDS: Final = {
    "TIMEOUT": "Slurm ended it at its time limit; give more with "
    '--dlperf-slurm="--time=4:00:00", or shorten the case',
    "DEADLINE": "Slurm ended it at its deadline",
    "NODE_FAIL": "its node failed; it is not started again on another one",
    "BOOT_FAIL": "its node did not boot",
    "OUT_OF_MEMORY": "it ran out of the memory that Slurm allows it",
    "PREEMPTED": "another job took its place",
    "CANCELLED": "it was cancelled, and not by this session",
    "REVOKED": "it was taken away",
    "COMPLETED": "it ended without results",
    "FAILED": "it failed",
    GONE: "Slurm no longer knows it, and it left no results",
}
_POLL_S: Final = 0.5
#: Seconds between two questions to Slurm's controller, which all users share.
_ASK_S: Final = 5.0
#: Seconds that results may take to be seen here after their job ended.
_SEEN_S: Final = 10.0
#: Seconds that Slurm may not answer before a case gives up.
_MUTE_S: Final = 600.0
_COMMAND_S: Final = 60.0
_LAST_LINES: Final = 20


class SlurmQueue:
    """Every job that this session has submitted."""

    def __init__(self, *, queue_timeout_s: float) -> None:
        self._queue_timeout_s = queue_timeout_s
        self._jobs: list[Job] = []
        self._asked_s = float("-inf")
        #: When Slurm stopped answering, and the error that it gave.
        self._mute_s: float | None = None
        self._mute_error = ""

    @property
    def in_flight(self) -> int:
        """Number of jobs that have not ended, as far as is known."""
        return sum(not job.state.ended for job in self._jobs)

    def submit(self, request: JobRequest) -> Job:
        """Submit a job; raise ``CaseError`` with sbatch's error message if it is refused."""
        _write_files(request)
        words = sbatch_command(request)
        try:
            process = subprocess.Popen(
                words,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                umask=0o077,
                # Ctrl-C must not end it between the job and its number
                start_new_session=True,
            )
        except OSError as error:
            raise CaseError(
                f"{request.name}: sbatch cannot be started ({error.strerror}); Slurm's commands "
                "must be on PATH where pytest runs"
            ) from error
        try:
            out, err = process.communicate(timeout=_COMMAND_S)
        except BaseException:
            # Interrupted: the job may be there already, and must not be forgotten
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._add(process.communicate(timeout=_COMMAND_S / 6)[0], request)
            raise
        job = self._add(out, request) if process.returncode == 0 else None
        if job is None:
            answer = " ".join((err.strip() or out.strip() or "it said nothing").split())
            raise CaseError(
                f"{request.name}: sbatch refused the job (exit code {process.returncode}): "
                f"{answer}; --dlperf-slurm gives sbatch what this cluster asks for"
            )
        return job

    def _add(self, out: str, request: JobRequest) -> Job | None:
        match = re.match(r"(\d+)(;\S*)?\s*$", out)  # the number, and the cluster's name
        if match is None:
            return None
        job = Job(number=match[1], request=request)
        self._jobs.append(job)
        return job

    def wait(
        self,
        job: Job,
        results: Path,
        *,
        report: Callable[[str], None],
        between: Callable[[], None],
    ) -> None:
        """Return when ``results`` of a job are there.

        ``report`` gets the job's state in words; ``between`` is called between two looks. Raises
        ``CaseError`` if the job ended without results, cannot start, or waits for too long.
        """
        ended_s: float | None = None
        while not _is_there(results):
            self.look()
            between()
            state = job.state
            if state.ended and not job.refused:
                ended_s = ended_s or time.monotonic()
                may_lag = state.word in {"COMPLETED", GONE}
                if not may_lag or time.monotonic() - ended_s > _SEEN_S:
                    raise CaseError(_ended_without(job))
            if job.refused:
                raise CaseError(job.refused)
            report(f"job {job.number} {state.text}{self._mute_note()}")
            time.sleep(_POLL_S)
        job.has_results = True

    def _refusal(self, job: Job) -> str:
        """Return why this session gives up a job that waits; empty if it does not."""
        waited_s = time.monotonic() - job.submitted_s
        name, reason = job.request.name, job.state.reason
        if job.state.never_starts:
            return (
                f"{name}: job {job.number} can never start: {reason}; --dlperf-slurm gives "
                "sbatch another --time, --partition, --account …"
            )
        if waited_s > self._queue_timeout_s:
            return (
                f"{name}: job {job.number} did not start within {self._queue_timeout_s:.0f} s "
                f"({reason or 'Slurm gives no reason'}), and was cancelled; "
                "--dlperf-queue-timeout lets it wait longer"
            )
        return ""

    def look(self) -> None:
        """Ask Slurm for the states of all jobs, unless that was just now."""
        open_jobs = [job for job in self._jobs if not job.state.ended]
        now_s = time.monotonic()
        if not open_jobs or now_s - self._asked_s < _ASK_S:
            return
        self._asked_s = now_s
        done = _ask(
            "squeue", "--noheader", "--states=all", "--format=%i|%T|%r|%N",
            f"--jobs={','.join(job.number for job in open_jobs)}",
        )  # fmt: skip
        # Asked for one job that it no longer knows squeue fails; of several it leaves that one out
        answered = done.returncode == 0 or "Invalid job id" in done.stderr
        if not answered:
            self._note_silence(done.stderr or done.stdout, now_s)
            return
        self._mute_s = None
        states = read_squeue(done.stdout)
        for job in open_jobs:
            state = states.get(job.number)
            job.state = state if state is not None else self._forgotten(job)
            # Also jobs that no test waits for yet: they count against the limit of jobs.
            if job.state.waits and not job.refused and (why := self._refusal(job)):
                job.refused = why
                self.cancel([job])

    def _note_silence(self, said: str, now_s: float) -> None:
        self._mute_s = self._mute_s or now_s
        self._mute_error = " ".join(said.split())
        if now_s - self._mute_s > _MUTE_S:
            raise CaseError(
                f"Slurm has not answered for {_MUTE_S / 60:.0f} minutes: {self._mute_error}"
            )

    def _mute_note(self) -> str:
        return "" if self._mute_s is None else f" (Slurm does not answer: {self._mute_error})"

    def _forgotten(self, job: Job) -> State:
        """Return the state of a job that squeue no longer shows.

        From scontrol, else from sacct, which many clusters do not have.
        """
        done = _ask("scontrol", "show", "job", "-o", job.number)
        found = read_scontrol(done.stdout)
        if found is None:
            done = _ask("sacct", "-n", "-P", "-X", "-o", "State", "-j", job.number)
            found = read_sacct(done.stdout) if done.returncode == 0 else None
        return found or State(word=GONE)

    def cancel(self, jobs: Sequence[Job]) -> str:
        """Cancel jobs that have not ended; return the error, empty if there was none."""
        numbers = [job.number for job in jobs if not job.state.ended]
        if not numbers:
            return ""
        done = _ask("scancel", *numbers)
        for job in jobs:
            job.state = State(word="CANCELLED")
        already = "already completing or completed" in done.stderr
        if done.returncode == 0 or already:
            return ""
        return (
            f"jobs {', '.join(numbers)} could not be cancelled ({' '.join(done.stderr.split())}); "
            "they end by themselves within a minute"
        )

    def cancel_all(self) -> str:
        """Cancel every job whose results are not here; return the error, empty for none."""
        return self.cancel([job for job in self._jobs if not job.has_results])


@dataclass(kw_only=True)
class Job:
    """A submitted job, with the state that Slurm last reported."""

    number: str
    request: JobRequest
    submitted_s: float = field(default_factory=time.monotonic)
    state: State = field(default_factory=lambda: State(word="PENDING"))
    #: Whether its results are here, so that it only has to end.
    has_results: bool = False
    #: Why it was cancelled before it started; empty if it was not.
    refused: str = ""


def _write_files(request: JobRequest) -> None:
    """Write the job's script and guard, readable by their owner only."""
    try:
        request.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copyfile(in_job.__file__, request.guard)
        request.script.touch(mode=0o700)
        request.script.write_bytes(os.fsencode(script_text(request)))
    except OSError as error:
        raise CaseError(
            f"{request.name}: {request.folder} cannot be written ({error.strerror}); name another "
            "folder with --dlperf-workdir"
        ) from error


def _ask(*words: str) -> subprocess.CompletedProcess[str]:
    """Run one of Slurm's commands; if it cannot be run, ``stderr`` says why."""
    try:
        return subprocess.run(
            words,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_COMMAND_S,
            check=False,
            start_new_session=True,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(words, 127, "", str(error))


def _is_there(results: Path) -> bool:
    # A network file system looks for new files when their folder is opened
    with contextlib.suppress(OSError):
        os.listdir(results.parent)
    return results.exists()


def _ended_without(job: Job) -> str:
    state, request = job.state, job.request
    where = f" on {state.nodes}" if state.nodes else ""
    begin = f"{request.name}: job {job.number}{where} gave no results: {state.end_text}"
    try:
        text = request.log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return (
            f"{begin}.\nIt left no log at {request.log}: if its node does not see that folder, "
            "put --dlperf-workdir onto a file system that all nodes share"
        )
    end = last_lines(text, count=_LAST_LINES, nothing="(it is empty)")
    return f"{begin}.\n{log_remark(request.log, end)}"


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """State of a job: Slurm's word for it, its reason, and the nodes."""

    word: str
    reason: str = ""
    nodes: str = ""

    @property
    def waits(self) -> bool:
        """Whether the job has not started."""
        return self.word in _WAITING

    @property
    def ended(self) -> bool:
        """Whether the job has ended."""
        return self.word not in _WAITING | _GOING_ON

    @property
    def never_starts(self) -> bool:
        """Whether it waits for something that will not happen."""
        return self.waits and self.reason in _FOREVER

    @property
    def text(self) -> str:
        """The state of a job that has not ended, for people."""
        if self.waits:
            because = f" ({self.reason})" if self.reason not in {"", "None"} else ""
            return f"waits in the queue{because}"
        return f"runs on {self.nodes}" if self.nodes else "runs"

    @property
    def end_text(self) -> str:
        """How the job ended, for people."""
        return _ENDS.get(self.word, f"it ended with Slurm's state {self.word}")


def read_squeue(text: str) -> dict[str, State]:
    """Return the states by job id that ``squeue --format=%i|%T|%r|%N`` printed."""
    found = {}
    for line in text.splitlines():
        number, _, rest = line.strip().partition("|")
        parts = rest.split("|")
        if number.isdecimal() and len(parts) == 3:
            found[number] = State(word=_word(parts[0]), reason=parts[1], nodes=parts[2])
    return found


def read_scontrol(text: str) -> State | None:
    """Return the state that ``scontrol show job -o`` printed; None if it printed none."""
    fields: Mapping[str, str] = dict(re.findall(r"(\w+)=(\S*)", text))
    if "JobState" not in fields:
        return None
    nodes = fields.get("NodeList", "")
    return State(
        word=_word(fields["JobState"]),
        reason=fields.get("Reason", ""),
        nodes="" if nodes == "(null)" else nodes,
    )


def read_sacct(text: str) -> State | None:
    """Return the state that ``sacct -n -P -X -o State`` printed; None if it printed none."""
    lines = text.split("\n")
    return State(word=_word(lines[0])) if lines and lines[0].strip() else None


def _word(text: str) -> str:
    # "CANCELLED by 1000", and "CANCELLED+" where a column is narrow
    words = text.split()
    return words[0].rstrip("+") if words else GONE
