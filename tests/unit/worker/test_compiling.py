from __future__ import annotations

import subprocess
import sys
from collections import Counter, defaultdict
from types import SimpleNamespace

import pytest

from pytest_dlperf.worker.compiling import CompileSample, compile_record, graphs, sample


def test_nothing_is_imported_to_find_out():
    program = (
        "import sys; from pytest_dlperf.worker.compiling import sample; print(*sample());"
        "assert not any(name.startswith('torch') for name in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "0 0.0 0\n"


@pytest.mark.parametrize("name", ["_compile.compile_inner", "_compile.<locals>.compile_inner"])
def test_counters_of_dynamo(monkeypatch: pytest.MonkeyPatch, name: str):
    counters = defaultdict(Counter)
    counters["frames"].update(total=3, ok=2)
    times = {name: [0.5, 0.25], "OutputGraph.call_user_compiler": [0.1]}
    dynamo = SimpleNamespace(counters=counters, compilation_time_metrics=times)
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", dynamo)  # type: ignore[arg-type]
    assert sample() == (3, 0.75, 0)


def test_what_dynamo_made(monkeypatch: pytest.MonkeyPatch):
    counters = defaultdict(Counter)
    counters["stats"].update(unique_graphs=2, calls_captured=5)
    counters["graph_break"].update({"print": 2})
    counters["frames"].update(total=3, ok=2)
    counters["inductor"].update(cudagraph_skips=2)
    metrics = [SimpleNamespace(graph_op_count=count) for count in (4, None, 1)]
    dynamo = SimpleNamespace(counters=counters, get_compilation_metrics=lambda: metrics)
    convert = SimpleNamespace(FRAME_COMPILE_COUNTER=Counter({0: 1, 1: 3}))
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", dynamo)  # type: ignore[arg-type]
    # A function that must be one graph is not among the frames.
    monkeypatch.setitem(sys.modules, "torch._dynamo.convert_frame", convert)  # type: ignore[arg-type]
    assert sample() == (3, 0.0, 4)
    assert graphs() == {
        "graphs": 2, "graph_breaks": 3, "recompiles": 2, "operators": 5,
        "operators_by_graph": [4, 1], "cudagraph_skips": 2,
    }  # fmt: skip
    record = compile_record(CompileSample(2, 0.0, 3), sample(), graphs())
    assert (record["frames"], record["frames_in_window"], record["graphs"]) == (4, 1, 2)


def test_who_compiled_nothing_made_nothing(monkeypatch: pytest.MonkeyPatch):
    dynamo = SimpleNamespace(counters=defaultdict(Counter))
    convert = SimpleNamespace(FRAME_COMPILE_COUNTER=Counter())
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", dynamo)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "torch._dynamo.convert_frame", convert)  # type: ignore[arg-type]
    assert graphs() == {}


def test_a_window_counts_what_was_compiled_in_it():
    record = compile_record(CompileSample(2, 1.5), CompileSample(3, 2.0))
    assert record == {
        "frames": 3, "seconds": 2.0, "frames_in_window": 1, "seconds_in_window": 0.5,
    }  # fmt: skip


def test_counters_that_were_set_back_count_from_nothing():
    record = compile_record(CompileSample(5, 3.0), CompileSample(1, 0.5))
    assert (record["frames_in_window"], record["seconds_in_window"]) == (1, 0.5)
