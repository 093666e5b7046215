"""Traces the small training once for each fault in one process: FOLDER DEVICES FAULT ..."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pytest_dlperf.worker.frameworks.jax.cost.trace import trace
from tests.helpers.traced import arguments_of

if __name__ == "__main__":
    folder, devices, *faults = sys.argv[1:]
    records = [
        trace(
            arguments_of(
                "tests.jax.costly:build", Path(folder), framework="jax", precision="bf16",
                world_size=int(devices), options={"planted": fault},
            )
        )
        for fault in faults
    ]  # fmt: skip
    sys.stdout.write(json.dumps(records))
