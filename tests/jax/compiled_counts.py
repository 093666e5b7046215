"""Trains Llama on 8 host devices, and prints what its compiled step has: FOLDER PARALLEL."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import perf_tests.llama
from pytest_dlperf.worker.cost.places import Places
from tests.helpers.traced import arguments_of

if __name__ == "__main__":
    folder, parallel = Path(sys.argv[1]), sys.argv[2]
    os.environ["XLA_FLAGS"] = (
        f"--xla_force_host_platform_device_count=8 --xla_dump_to={folder}/real "
        "--xla_dump_hlo_pass_re=spmd-partitioning"
    )
    import jax
    import jax.numpy as jnp

    from pytest_dlperf.worker.frameworks.jax.cost.counts import Counts
    from pytest_dlperf.worker.frameworks.jax.cost.hlo_text import parsed
    from pytest_dlperf.worker.frameworks.jax.job import JaxJob
    from pytest_dlperf.worker.workload import build

    workload = "perf_tests.llama.jax_train:build"
    arguments = arguments_of(
        workload, folder, framework="jax", world_size=8, devices_per_process=8, device="cpu",
        parallel=parallel, precision="bf16", options={"model": ""},
    )  # fmt: skip
    step = build(workload, JaxJob.of(arguments, device=jax.devices()[0], dtype=jnp.float32))
    for _ in range(2):
        step()
    [text] = (folder / "real").glob("*jit_train.*after_spmd-partitioning*")
    places = Places(str(Path(perf_tests.llama.__path__[0]) / "jax_train.py"))
    counts = Counts(8, places, on_gpu=True, axes={})
    counts.add(parsed(text.read_text(encoding="utf-8")))
    found = {
        "flops": counts.flops(),
        "operators": counts.operators(),
        "collectives": counts.collectives,
    }
    sys.stdout.write(json.dumps(found))
