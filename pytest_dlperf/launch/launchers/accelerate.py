"""Launcher accelerate: Hugging Face's, once on each node, one rank per device."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Final

from pytest_dlperf.core.case import Case
from pytest_dlperf.launch.base import (
    NOT_STANDALONE,
    Launcher,
    Target,
    free_port,
    program_beside,
    rank_command,
)

#: Its words for precisions; any other has none.
_PRECISIONS: Final = {"amp": "fp16", "bf16": "bf16", "fp8": "fp8"}
#: Makes programs train on CPUs, also where there is a GPU.
_ON_CPU: Final = "ACCELERATE_USE_CPU=true"


class AccelerateLauncher(Launcher):
    """Starts ranks with ``accelerate launch`` (https://huggingface.co/docs/accelerate).

    What the user's default configuration says of devices, ports, precision and compilation is
    replaced; what it says of FSDP or DeepSpeed counts.
    """

    installed_by: ClassVar = "the package accelerate brings it: pip install accelerate"
    rank_logs: ClassVar = "accelerate/*/attempt_0/*/std*.log"

    def argv(self, case: Case, target: Target, workdir: Path) -> tuple[str, ...]:
        """Return the command of one node; on several, each runs the same."""
        layout = case.layout
        place: tuple[str, ...] = (
            "--machine_rank=0",
            "--main_process_ip=127.0.0.1",
            f"--main_process_port={free_port()}",
        )
        if layout.nodes > 1:
            place = (
                "--machine_rank=${NODE_RANK}",
                "--main_process_ip=${MASTER_ADDR}",
                "--main_process_port=${MASTER_PORT}",
            )
        # Its option for CPUs needs MPI; this one starts torchrun's ranks, also where no GPU is.
        several = ("--multi_gpu", "--max_restarts=0", "--tee=3") if case.ranks > 1 else ()
        logs = (f"--log_dir={workdir / 'accelerate'}",) if several else ()
        # It writes over the variable for a single process, where --cpu would pin threads as well
        on_cpu = ("env", _ON_CPU) if case.layout.device == "cpu" and not several else ()
        return (
            program_beside(target, "accelerate"),
            "launch",
            *several,
            *logs,
            f"--num_machines={layout.nodes}",
            f"--num_processes={case.ranks}",
            *place,
            f"--mixed_precision={_PRECISIONS.get(case.precision, 'no')}",
            "--dynamo_backend=no",
            "--no_python",
            *on_cpu,
            *rank_command(case, target, workdir, self.place_variables),
        )

    def env(self, case: Case, target: Target, workdir: Path) -> dict[str, str]:
        """Return what makes programs train on CPUs, how ranks meet, a single rank's place."""
        on_cpu = dict([_ON_CPU.split("=")]) if case.layout.device == "cpu" else {}
        if case.ranks > 1:
            return {**on_cpu, **NOT_STANDALONE}
        if case.command:
            return on_cpu
        return {**on_cpu, "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
