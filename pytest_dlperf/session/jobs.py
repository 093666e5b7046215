"""Build the jobs of a session from its options, and the options that run a case again."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_dlperf.core.place import JOB_OPTIONS, masked
from pytest_dlperf.core.verdict import NEVER
from pytest_dlperf.flow.scheduled import Jobs
from pytest_dlperf.flow.watcher import Watcher
from pytest_dlperf.launch.remote.sent_to_hosts import exported_names
from pytest_dlperf.report.printable import shown
from pytest_dlperf.session.ending import Ending
from pytest_dlperf.session.option_values import REPORTS
from pytest_dlperf.session.options import flags
from pytest_dlperf.session.settings import Settings

if TYPE_CHECKING:
    import pytest


#: Options that say what becomes of a result, not how it is reached.
NOT_REPEATED: Final = frozenset(
    {
        f"--dlperf-{name}"
        for name in (*REPORTS, "history", "sink", "resume", "reason", "update-baselines")
    }
)


def own_options(
    arguments: Iterable[str | os.PathLike[str]],
    flags: Collection[str],
    *,
    without: Collection[str] = NOT_REPEATED,
    for_people: bool = False,
) -> list[str]:
    """Return the arguments that are ours, less those named in ``without``.

    ``flags`` are the names, without their beginning, of options that take no value. ``for_people``
    leaves the values of variables out that a prefix sets: summaries end up in the logs of CI.
    """
    options: list[str] = []
    words = iter(str(argument) for argument in arguments)
    for word in words:
        name, equals, _ = word.partition("=")
        if name not in {"--gpus", "--cpus"} and not name.startswith("--dlperf-"):
            continue
        takes_value = name.removeprefix("--dlperf-") not in flags
        option = [word] if equals or not takes_value else [word, next(words, "")]
        if for_people and name == "--dlperf-prefix":
            option = [f"{name}={masked('='.join(option).removeprefix(f'{name}='))}"]
        if name not in without:
            options += option
    return options


#: Options not forwarded to the pytest process of a job.
_NOT_FOR_JOBS: Final = NOT_REPEATED | {
    f"--dlperf-{name}" for name in ("scheduler", *JOB_OPTIONS, "workdir", "list", "dry-run")
}


def make_jobs(
    config: pytest.Config, settings: Settings, folder: Path, watcher: Watcher, ending: Ending
) -> Jobs:
    """Return the jobs of a session, which are cancelled when pytest ends; none is submitted yet.

    ``folder`` is the session's.
    """
    assert settings.scheduling is not None
    jobs = Jobs(
        scheduling=settings.scheduling,
        folder=folder,
        workdir=settings.workdir,
        rootdir=settings.rootdir,
        cwd=config.invocation_params.dir,
        python=_python_of_a_job(settings),
        options=_options_of_a_job(config),
        exported=(*exported_names(os.environ), *settings.travelling),
        share_host=settings.share_host,
        frameworks_asked=settings.frameworks or (),
        against=settings.against is not None,
        confirms=settings.second_stage != NEVER,
        behind_prefix=bool(settings.place.prefix),
        runs_nothing=settings.runs_nothing or config.option.collectonly,
        watcher=watcher,
    )
    # The signal first: its handler is to be there until the jobs are cancelled
    ending.install(config)
    config.add_cleanup(lambda: _close(jobs))
    return jobs


def _options_of_a_job(config: pytest.Config) -> tuple[str, ...]:
    """Return what the pytest of a job is given of this one's arguments."""
    ini = () if config.inipath is None else ("-c", str(config.inipath))
    arguments = config.invocation_params.args
    return (*ini, *own_options(arguments, flags(), without=_NOT_FOR_JOBS))


def _python_of_a_job(settings: Settings) -> str:
    """Return the interpreter of a job's pytest."""
    if settings.place.prefix:
        return sys.executable  # the named one is that behind the prefix
    return settings.place.python


def _close(jobs: Jobs) -> None:
    failed = jobs.close()
    if failed:
        sys.stderr.write(shown(f"pytest-dlperf: {failed}\n"))
