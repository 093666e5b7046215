"""``python -m pytest_dlperf.worker.cost``: what one step of a case asks of its devices."""

from __future__ import annotations

import importlib
import os
import re
import sys
import time
from typing import NoReturn

from pytest_dlperf.core.frameworks import TRACED
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
    name = arguments.framework
    lowest = TRACED.get(name)
    if lowest is None:
        return _problem(
            f"the cost of a step is traced in {' and '.join(TRACED)}, and this case is one of "
            f"{name}; measure it"
        )
    version = importlib.import_module(name).__version__
    numbers = tuple(map(int, re.findall(r"\d+", version)[: len(lowest)]))
    if any(numbers) and numbers < lowest:
        needed = f"{name}>={'.'.join(map(str, lowest))}"
        return _problem(
            f"a trace needs {needed}, and this is {name} {version}; pip install "
            f"'{needed}', or measure this case"
        )
    try:
        module = importlib.import_module(f"pytest_dlperf.worker.frameworks.{name}.cost.trace")
    except ImportError as error:
        return _problem(
            f"{name} {version} lacks what a trace imports ({error}); install a newer "
            f"pytest-dlperf or an older {name}, or measure this case"
        )
    record: CostRecord = module.trace(arguments)
    return record


def _problem(words: str) -> CostRecord:
    return CostRecord(format=COST_FORMAT, problem=words)


def _leave() -> NoReturn:
    """End this process at once: process groups and threads of libraries may hang at its end."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
    _leave()
