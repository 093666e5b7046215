"""What this pytest process is to its session: all of it, or one of pytest-xdist's processes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest


class Role(Enum):
    """What a process of a session does."""

    #: It runs the tests and reports them.
    SINGLE = "single"
    #: One of pytest-xdist's workers: it runs tests, and has no terminal.
    WORKER = "worker"
    #: It starts the workers and reports what they send: it collects nothing and runs no test.
    CONTROLLER = "controller"


@dataclass(frozen=True, kw_only=True, slots=True)
class Process:
    """A process of a session; the fields but the first are of a worker."""

    role: Role
    #: ``gw0`` ...; empty for no worker.
    worker: str = ""
    #: The worker's number, from 0, and how many there are.
    number: int = 0
    count: int = 1
    #: Name of the session, the same in all its workers; empty for no worker.
    session_name: str = ""

    @property
    def is_worker(self) -> bool:
        """Whether another process has the terminal."""
        return self.role is Role.WORKER


def process_of(config: pytest.Config) -> Process:
    """Return what the pytest of ``config`` is; pytest-xdist need not be installed."""
    workerinput: Any = getattr(config, "workerinput", None)
    if workerinput is not None:
        name = str(workerinput["workerid"])
        digits = name.removeprefix("gw")
        return Process(
            role=Role.WORKER,
            worker=name,
            number=int(digits) if digits.isdecimal() else 0,
            count=int(workerinput["workercount"]),
            session_name=_session_name(workerinput),
        )
    options = config.option
    starts_workers = getattr(options, "dist", "no") != "no" and bool(options.tx)
    # pytest-xdist leaves a collection alone to this process
    is_controller = starts_workers and not options.collectonly
    return Process(role=Role.CONTROLLER if is_controller else Role.SINGLE)


def name_of_session(node: Any) -> str:
    """Return the session's name that a worker has, for the process that started it as ``node``."""
    return _session_name(node.workerinput)


def _session_name(workerinput: Any) -> str:
    return str(workerinput["testrunuid"])
