"""The profile of a few steps of a JAX training, in this process and in two of their own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pytest_dlperf.core.wire_profile import ProfileRecord
from pytest_dlperf.worker import xla_compiles
from pytest_dlperf.worker.frameworks import xplane_profiler
from pytest_dlperf.worker.frameworks.jax.devices import Settled
from pytest_dlperf.worker.frameworks.jax.profile import profile
from tests.helpers.marked_program import program, settings
from tests.helpers.profiled_steps import (
    Framework,
    calls_of,
    profile_alike_everywhere,
    trace_names,
)
from tests.helpers.simulated_gpu import records
from tests.jax.conftest import jax_session

pytestmark = pytest.mark.jax


def loss_of(params: Any, x: Any) -> Any:
    with jax.named_scope("hidden"):
        hidden = jax.nn.relu(x @ params["hidden"])
    with jax.named_scope("out"):
        return jnp.square(hidden @ params["out"]).mean()


def training(framework: Framework, *, compiles: bool = False) -> Callable[[], Any]:
    params = {"hidden": jnp.ones((32, 64)), "out": jnp.ones((64, 8))}
    batches = framework.job.feed.batches([np.ones((16, 32), np.float32)] * 3)

    def update(params: Any, x: Any) -> Any:
        loss, gradients = jax.value_and_grad(loss_of)(params, x)
        return jax.tree.map(lambda p, g: p - 1e-6 * g, params, gradients), loss

    train = jax.jit(update)

    def step() -> Any:
        nonlocal params, train
        if compiles:
            train = jax.jit(functools.partial(update))
        params, loss = train(params, next(batches))
        return loss

    step()
    return step


def profiled(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, compiles: bool = False
) -> ProfileRecord:
    profile_alike_everywhere(monkeypatch)
    xla_compiles.sample()
    framework = Framework(keep=float)
    monkeypatch.setattr(framework, "synchronise", Settled(on_gpu=False))
    step = training(framework, compiles=compiles)
    return profile(framework, step, folder)  # type: ignore[arg-type]


def test_operators_are_known_by_their_scope_and_parts_add_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    found = profiled(tmp_path, monkeypatch)
    calls = calls_of(found, tmp_path, "compute", "waiting for data", "Python and launches")
    assert not any("compilation" in window["parts"] for window in found["windows"])
    assert calls["hidden", "dot_general"] == 1
    assert calls["hidden", "max"] == 1
    assert calls["out (backward)", "dot_general"] == 2
    assert calls["hidden (backward)", "dot_general"] == 1
    assert calls["data", "DataLoader"] == 1
    assert {"dlperf.step", "process_name"} <= trace_names(found, tmp_path)
    assert "memory" not in found


def test_what_each_step_compiles_again_is_a_part_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    found = profiled(tmp_path, monkeypatch, compiles=True)
    assert all(window["parts"]["compilation"] > 0 for window in found["windows"])
    calls = {(one["path"], one["name"], one["part"]): one["calls"] for one in found["operators"]}
    assert calls["", "tracing and compiling", "compilation"] >= 1
    assert calls["hidden", "dot_general", "compute"] == 1, "by place, not by program"


@pytest.mark.parametrize("method", ["start_trace", "stop_trace"])
def test_a_profiler_that_crashes_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
):
    original = jax.profiler.stop_trace

    def crash(*_given: Any, **_named: Any) -> None:
        if method == "stop_trace":
            original()
        raise RuntimeError("CUPTI\nis in use")

    monkeypatch.setattr(jax.profiler, method, crash)
    found = profiled(tmp_path, monkeypatch)
    assert found == {"problem": "jax.profiler failed: RuntimeError: CUPTI"}
    assert not list(tmp_path.iterdir())


def test_a_recording_that_is_too_large_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(xplane_profiler, "_MOST_BYTES", 1000)
    found = profiled(tmp_path, monkeypatch)
    assert found["problem"].startswith("jax.profiler failed: ValueError: its recording has")
    assert not list(tmp_path.iterdir())


TRAINING = {"iterations": 12, "warmup": 4}


@pytest.mark.nightly  # its launches take longer than all before it, which use the same profiler
def test_a_product_has_its_place_and_part_in_two_processes(tmp_path: Path):
    session = jax_session(tmp_path, {"extra": TRAINING}, "--dlperf-explain=always", EXTRA="yes")
    found = session["extra"].outcome["explanation"]
    assert "no profile of before" in found["sentence"], found
    rows = {(row["path"], row["operator"]): row for row in found["operators"]}
    assert rows["extra", "dot_general"]["after_calls"] == 1
    assert rows["extra", "dot_general"]["part"] == "compute"
    assert rows["", "all-reduce"]["part"] == "exposed communication"
    assert {"compute", "exposed communication", "Python and launches"} <= {
        part["part"] for part in found["parts"]
    }


@pytest.mark.nightly  # eight launches of two processes
def test_a_product_that_one_arm_alone_has_is_named(tmp_path: Path):
    keys = {**TRAINING, "runs": 2, "max_runs": 2}
    session = jax_session(
        tmp_path,
        {"two": keys, "devices": {**keys, "devices_per_process": 2}},
        "--dlperf-against=EXTRA=no",
        "--dlperf-explain=always",
        EXTRA="yes",
    )
    for name in ("two", "devices"):
        found = session[name].outcome["explanation"]
        assert found["note"] == ""
        rows = {(row["path"], row["operator"]): row for row in found["operators"]}
        product = rows["extra", "dot_general"]
        assert (product["before_calls"], product["after_calls"]) == (0, 1)
        assert product["part"] == "compute"
        total = sum(part["difference_ms"] for part in found["parts"])
        assert total == pytest.approx(found["after_ms"] - found["before_ms"])
        assert len(found["traces"]) == 2


PROGRAM = """
import jax
import jax.numpy as jnp

@jax.jit
def train(w, x):
    def loss_of(w):
        with jax.named_scope("layer"):
            return jnp.mean((x @ w) ** 2)

    loss, gradient = jax.value_and_grad(loss_of)(w)
    return w - 0.1 * gradient, loss

w, x = jnp.ones((64, 64)), jnp.ones((32, 64))
for _ in range(18):
    with step() as s:
        w, loss = train(w, x)
        s.loss(loss)
"""


def test_marked_steps_of_a_program_are_profiled(tmp_path: Path):
    mark = settings(tmp_path)._replace(framework="jax", profiled_steps=5)
    program(tmp_path, PROGRAM, DLPERF_MARK=mark.to_json(), PATH=str(tmp_path))
    *_, profile = records(tmp_path)["profile"]
    assert "problem" not in profile, profile["problem"]
    assert len(profile["windows"]) == 3, "of five, without the shortest and the longest"
    calls = {(row["path"], row["name"]): row["calls"] for row in profile["operators"]}
    assert calls["layer", "dot_general"] == 1
    assert calls["layer (backward)", "dot_general"] == 1
