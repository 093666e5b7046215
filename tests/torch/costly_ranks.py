"""One rank of the small training on gloo: what its second step really did."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed._tools.mem_tracker import MemTracker

from pytest_dlperf.worker.frameworks.torch.flops import FlopsByDtype
from pytest_dlperf.worker.frameworks.torch.job import TorchJob
from tests.helpers.traced import arguments_of
from tests.torch import costly


def main() -> None:
    folder = Path(sys.argv[1])
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if world_size > 1:
        meeting = f"file://{folder / 'rendezvous'}"
        dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=world_size)
    arguments = arguments_of(
        "", folder, precision="bf16", device="cpu", world_size=world_size, parallel="ddp"
    )
    job = TorchJob.of(arguments, device=torch.device("cpu"), dtype=torch.float32)
    tensors: list[torch.Tensor] = []
    step = costly.build(job)
    step()
    [module] = job.modules
    flops, memory = FlopsByDtype(), MemTracker()
    optimizers = [
        value.cell_contents
        for value in step.__closure__ or ()
        if isinstance(value.cell_contents, (torch.optim.Optimizer, torch.Tensor))
    ]
    memory.track_external(module, *optimizers, *tensors)
    with memory, flops:
        step()
    [peak] = memory.get_tracker_snapshot("peak").values()
    report = {
        "flops": dict(flops.flops),
        "peak_bytes": next(v for k, v in peak.items() if str(k) == "Total"),
    }
    (folder / f"{world_size}-{rank}.json").write_text(json.dumps(report), encoding="utf-8")
    os._exit(0)


if __name__ == "__main__":
    main()
