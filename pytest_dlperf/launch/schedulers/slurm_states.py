"""What Slurm says of jobs, read; and how the end of one is told to people."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

#: States in which a job is still to come, or goes on. All others are ends.
_WAITING: Final = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SUSPENDED"})
_GOING_ON: Final = frozenset({"RUNNING", "COMPLETING", "STAGE_OUT", "SIGNALING", "STOPPED"})
#: The state of a job that Slurm no longer knows.
GONE: Final = "GONE"
#: Reasons for waiting that nothing but another request takes away.
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


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """How a job stands: Slurm's word for it, and for why."""

    word: str
    reason: str = ""
    nodes: str = ""

    @property
    def waits(self) -> bool:
        """Whether the job has not started."""
        return self.word in _WAITING

    @property
    def ended(self) -> bool:
        """Whether nothing of the job goes on."""
        return self.word not in _WAITING | _GOING_ON

    @property
    def never_starts(self) -> bool:
        """Whether it waits for what will not come."""
        return self.waits and self.reason in _FOREVER

    @property
    def words(self) -> str:
        """How the job stands, for people who wait."""
        if self.waits:
            because = f" ({self.reason})" if self.reason not in {"", "None"} else ""
            return f"waits in the queue{because}"
        return f"runs on {self.nodes}" if self.nodes else "runs"

    @property
    def end_words(self) -> str:
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
