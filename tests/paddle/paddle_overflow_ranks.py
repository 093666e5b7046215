"""One rank of an ArcFace training with AMP whose first rank's shard overflows in one step."""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import paddle
import paddle.distributed as dist

from perf_tests.arcface import paddle_train as arcface
from pytest_dlperf.worker.frameworks.paddle.job import LossScaler, PaddleJob

STEPS, OVERFLOWS = 4, 2


def main(folder: Path) -> None:
    """Write the loss and the loss scale of each step."""
    # Paddle's autocast says that it does nothing on a CPU.
    warnings.simplefilter("ignore")
    rank = int(os.environ["PADDLE_TRAINER_ID"])
    paddle.set_device("cpu")
    dist.init_parallel_env()
    paddle.seed(0)
    scaler = scaler_on_a_cpu()
    job = PaddleJob(
        rank=rank, local_rank=rank, world_size=2, device="cpu", precision="amp",
        batch_size_per_device=4, size="tiny", seed=0, dtype="float32", scaler=scaler,
    )  # fmt: skip
    step = arcface.build(job)
    share = arcface.share_overflow
    losses, scales = [], []
    for index in range(STEPS):
        infinite = index == OVERFLOWS and rank == 0

        def shared(gradient: paddle.Tensor, infinite: bool = infinite) -> None:
            if infinite:
                gradient.set_value(paddle.full_like(gradient, float("inf")))
            share(gradient)

        arcface.share_overflow = shared
        losses.append(step().item())
        scales.append(scaler.state_dict()["scale"].item())
    report = {"losses": losses, "scales": scales}
    (folder / f"{rank}.json").write_text(json.dumps(report), encoding="utf-8")
    dist.barrier()
    os._exit(0)


def scaler_on_a_cpu() -> LossScaler:
    """Return a true loss scaler: Paddle makes none on a CPU, though its work has kernels there."""
    module = paddle.amp.grad_scaler
    tracer, place = module._dygraph_tracer, SimpleNamespace(is_gpu_place=lambda: True)
    module._dygraph_tracer = lambda: SimpleNamespace(_expected_place=place)
    try:
        return LossScaler()
    finally:
        module._dygraph_tracer = tracer


if __name__ == "__main__":
    main(Path(sys.argv[1]))
