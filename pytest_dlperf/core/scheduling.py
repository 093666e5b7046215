"""The options of a scheduler (Slurm, Kubernetes) that runs the cases of a session as jobs."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.quantity import parse_duration

SCHEDULERS: Final = ("slurm", "kubernetes")
#: Value of the option for pytest within a job, which runs its case there and stores nothing.
IN_JOB: Final = "in-job"
#: Options that need a scheduler.
OPTIONS: Final = ("jobs", "slurm", "queue-timeout", "image")
#: Why an option cannot be combined with jobs.
_CONTRARY: Final = {
    "node-rank": "starts one node's part by hand; a job starts all of them",
    "hosts": "names the hosts, and here the scheduler chooses them",
    "from-logs": "judges logs, and starts nothing",
    "budget": "is the time of cases that run one after the other, and jobs run at once; bound "
    "each by --time in --dlperf-slurm",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Scheduling:
    """The scheduler, and what is asked of it."""

    name: str
    #: Jobs that are in flight at once, at most.
    jobs: int = 4
    #: Further words for sbatch.
    words: tuple[str, ...] = ()
    #: How long a job may wait for its start, in seconds.
    queue_timeout_s: float = 86400.0
    #: The image of containers; empty where none was named.
    image: str = ""

    @classmethod
    def parse(cls, get: Callable[[str], Any]) -> Scheduling | None:
        """Return what the options say, None without a scheduler; raise ``UsageError``."""
        name = get("scheduler")
        given = [option for option in OPTIONS if get(option) is not None]
        if name is None and given:
            raise UsageError(
                f"--dlperf-{given[0]} is for jobs; name their scheduler with --dlperf-scheduler"
            )
        if name is None or name == IN_JOB:
            return None
        if name not in SCHEDULERS:
            raise UsageError(f"--dlperf-scheduler={name}: known are {', '.join(SCHEDULERS)}")
        for option, why in _CONTRARY.items():
            if get(option) is not None:
                raise UsageError(f"--dlperf-scheduler={name} and --dlperf-{option}: that {why}")
        if name == "kubernetes" and not (get("dry-run") or get("list")):
            raise UsageError(
                "--dlperf-scheduler=kubernetes prints manifests, with --dlperf-dry-run; nothing "
                "is submitted to a cluster from here: kubectl apply does that"
            )
        return cls(
            name=name,
            jobs=_jobs(get("jobs")),
            words=_words(get("slurm")),
            queue_timeout_s=parse_duration(
                get("queue-timeout") or "24h", what="--dlperf-queue-timeout"
            ),
            image=get("image") or "",
        )


def _jobs(text: str | None) -> int:
    if text is None:
        return 4
    if not text.strip().isdecimal() or int(text) < 1:
        raise UsageError(f"--dlperf-jobs={text}: give a whole number, 1 or more")
    return int(text)


def _words(text: str | None) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text or ""))
    except ValueError as error:
        raise UsageError(f"--dlperf-slurm={text}: {error}; quote it as in a shell") from error
