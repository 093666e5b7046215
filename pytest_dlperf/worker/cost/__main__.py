"""``python -m pytest_dlperf.worker.cost``: what one step of a case asks of its devices."""

from __future__ import annotations

import os
import sys
import time
from typing import Final, NoReturn

from pytest_dlperf.core.wire_cost import COST_FORMAT, CostRecord
from pytest_dlperf.worker import arguments as command_line
from pytest_dlperf.worker.arguments import Arguments
from pytest_dlperf.worker.cost.record_file import write_record
from pytest_dlperf.worker.frameworks.on_cpu import peak_resident_set_bytes


def main() -> None:
    """Write the record of a trace, or the problem that kept the case from being traced."""
    arguments = command_line.parse()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    begin_s = time.monotonic()
    record = _traced(arguments)
    if "problem" not in record:
        record["elapsed_s"] = round(time.monotonic() - begin_s, 3)
        record["trace_peak_bytes"] = peak_resident_set_bytes()
    write_record(arguments.folder, record)


def _traced(arguments: Arguments) -> CostRecord:
    # No library may find a GPU, not even to ask for its name
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    trace_of = _TRACES.get(arguments.framework)
    if trace_of is None:
        return CostRecord(
            format=COST_FORMAT,
            problem=f"the cost of a step is traced in {' and '.join(_TRACES)}, and this case is "
            f"one of {arguments.framework}; measure it",
        )
    return trace_of(arguments)


def _in_torch(arguments: Arguments) -> CostRecord:
    try:
        from pytest_dlperf.worker.frameworks.torch.cost.trace import trace
    except ImportError as error:
        import torch

        return _too_old("PyTorch", torch.__version__, error)
    return trace(arguments)


def _in_jax(arguments: Arguments) -> CostRecord:
    try:
        from pytest_dlperf.worker.frameworks.jax.cost.trace import trace
    except ImportError as error:
        import jax

        return _too_old("JAX", jax.__version__, error)
    return trace(arguments)


def _too_old(name: str, version: str, error: ImportError) -> CostRecord:
    return CostRecord(
        format=COST_FORMAT,
        problem=f"{name} {version} has not what a trace needs ({error}); upgrade it, or measure "
        "this case",
    )


_TRACES: Final = {"torch": _in_torch, "jax": _in_jax}


def _leave() -> NoReturn:
    """End this process at once: process groups and threads of libraries may hang at its end."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
    _leave()
