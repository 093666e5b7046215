"""What ``--dlperf-dry-run`` prints where a scheduler runs the cases: jobs, not launches."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

from pytest_dlperf.core.errors import DlperfError
from pytest_dlperf.launch.plan import launcher_name
from pytest_dlperf.launch.schedulers.exported import tuning_names
from pytest_dlperf.launch.schedulers.kubernetes import PodRequest, manifest
from pytest_dlperf.launch.schedulers.slurm_job import sbatch_words, script_text
from pytest_dlperf.launch.schedulers.yaml_text import yaml_text

if TYPE_CHECKING:
    from pytest_dlperf.flow.scheduled import Jobs, Planned


def preview(jobs: Jobs) -> list[str]:
    """Return the lines of what would be submitted for every case; nothing is."""
    show = _manifest if jobs.scheduling.name == "kubernetes" else _batch_job
    return [line for planned in jobs.planned for line in show(planned, jobs)]


def _batch_job(planned: Planned, jobs: Jobs) -> list[str]:
    request = jobs.request(planned)
    script = [f"    {line}" for line in script_text(request).splitlines()]
    return ["", planned.case.id, f"  {shlex.join(sbatch_words(request))}", *script]


def _manifest(planned: Planned, jobs: Jobs) -> list[str]:
    case, workdir = planned.case, str(jobs.workdir)
    request = PodRequest(
        case=case,
        launcher=launcher_name(case),
        command=(*jobs.pytest_words(planned), f"--dlperf-workdir={workdir}"),
        image=jobs.scheduling.image,
        env={name: os.environ[name] for name in tuning_names(os.environ)},
        workdir=workdir,
        time_s=jobs.time_s(case),
    )
    try:
        return yaml_text(manifest(request)).splitlines()
    except DlperfError as error:
        return ["---", f"# {error}"]
