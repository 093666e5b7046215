"""What is seen of compiled functions: their inputs, and their work by dtype."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from pytest_dlperf.worker import xla_compiles
from pytest_dlperf.worker.failure import WorkerFailure
from pytest_dlperf.worker.frameworks import canary
from pytest_dlperf.worker.frameworks.jax import framework, watch
from pytest_dlperf.worker.frameworks.jax.devices import Reduction, Settled
from pytest_dlperf.worker.frameworks.jax.framework import measure_canary, product_error

pytestmark = pytest.mark.jax


def flops(function: Callable[..., Any], *shapes: tuple[int, ...], dtype: Any = jnp.float32):
    arguments = [jax.ShapeDtypeStruct(shape, dtype) for shape in shapes]
    return watch.flops_of(jax.make_jaxpr(function)(*arguments).jaxpr)


def convolution(x, kernel, **options):
    return lax.conv_general_dilated(
        x, kernel, options.pop("strides", (1, 1)), "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"), **options,
    )  # fmt: skip


def test_products_and_batches_of_them():
    assert flops(jnp.matmul, (3, 4), (4, 5)) == {"float32": 2 * 3 * 4 * 5}
    assert flops(jnp.matmul, (7, 3, 4), (7, 4, 5), dtype=jnp.bfloat16) == {
        "bfloat16": 7 * 2 * 3 * 4 * 5
    }


def test_convolutions_and_their_gradients_do_the_same_work_thrice():
    x, kernel, work = (2, 8, 8, 3), (3, 3, 3, 16), 2 * 2 * 8 * 8 * 16 * 9 * 3
    assert flops(convolution, x, kernel) == {"float32": work}
    gradient = jax.grad(lambda *given: convolution(*given).sum(), argnums=(0, 1))
    assert flops(lambda *given: (gradient(*given), convolution(*given)), x, kernel) == {
        "float32": 4 * work
    }
    # A stride of two leaves a quarter, in both directions
    strided = jax.grad(lambda *given: convolution(*given, strides=(2, 2)).sum(), argnums=(0, 1))
    assert flops(strided, x, kernel) == {"float32": 3 * work // 4}
    grouped = flops(lambda a, b: convolution(a, b, feature_group_count=3), x, (3, 3, 1, 15))
    assert grouped == {"float32": 2 * 2 * 8 * 8 * 15 * 9}


def test_bodies_count_as_often_as_they_are_done():
    def scanned(x):
        return lax.scan(lambda carry, _: (carry @ carry, None), x, length=5)[0]

    assert flops(scanned, (4, 4)) == {"float32": 5 * 2 * 4**3}

    def either(x):
        return lax.cond(x[0, 0] > 0, lambda a: a @ a @ a, lambda a: a @ a, x)

    assert flops(either, (4, 4)) == {"float32": 2 * 2 * 4**3}
    nested = jax.checkpoint(jax.jit(lambda x: x @ x))
    assert flops(nested, (4, 4)) == {"float32": 2 * 4**3}


def test_calls_are_seen_in_two_iterations_and_left_alone_afterwards():
    # A new function each time, as JAX remembers the shortcuts of old ones
    net = jax.jit(lambda weights, x: (x @ weights).sum())
    other = jax.jit(lambda x: x + 1)
    weights, x = jnp.ones((4, 5)), jnp.ones((3, 4))
    seen = watch.Watch(lambda: weights)
    before = xla_compiles.sample().programs

    def step() -> None:
        net(weights, x)
        net(weights, other(x))

    step()
    compiled = xla_compiles.sample().programs
    assert compiled == before + 2
    with seen.first():
        step()
    with seen.second():
        step()
    assert seen.shapes == [[3, 4]]
    assert seen.flops == {"float32": 2 * 2 * 3 * 4 * 5}
    step()
    assert seen.flops == {"float32": 2 * 2 * 3 * 4 * 5}
    assert xla_compiles.sample().programs == compiled, "to look compiles nothing"
    assert jax._src.pjit._pjit_call_impl_python.__qualname__ == "_pjit_call_impl_python"


def test_labels_with_the_shape_of_a_parameter_are_inputs():
    weights, bias = jnp.ones((4, 5)), jnp.ones(3)
    seen = watch.Watch(lambda: [weights, bias])
    net = jax.jit(lambda w, b, x, labels: (x @ w).sum() + (b * labels).sum())
    with seen.first():
        net(weights, bias, jnp.ones((3, 4)), jnp.zeros(3, jnp.int32))
    assert seen.shapes == [[3, 4], [3]]


def test_a_jax_that_calls_in_another_way_is_not_watched(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(jax._src.pjit, "_get_fastpath_data")
    seen = watch.Watch(list)
    assert "a way that is not known here" in seen.unwatched
    with seen.first(), seen.second():
        pass
    assert seen.shapes is None


def test_a_checksum_is_of_the_numbers_and_says_what_was_donated():
    one = {"a": jnp.ones((2, 3)), "b": jnp.zeros(4)}
    found = watch.checksum(one)
    assert found["tensors"] == 2
    assert watch.checksum({"a": jnp.ones((2, 3)), "b": jnp.zeros(4)}) == found
    assert watch.checksum({"a": jnp.ones((2, 3)), "b": jnp.zeros(4).at[0].set(1)}) != found
    jax.jit(lambda x: x + 1, donate_argnums=0)(one["a"])
    with pytest.raises(WorkerFailure, match="donated to a later step"):
        watch.checksum(one)


def test_all_that_was_queued_is_waited_for():
    work = jax.jit(lambda one: lax.fori_loop(0, 200, lambda _, each: each @ each, one))
    matrix = jnp.eye(300)
    jax.block_until_ready(work(matrix))
    queued = [work(matrix) for _ in range(3)]
    assert not queued[-1].is_ready()
    Settled(on_gpu=False)()
    assert all(one.is_ready() for one in queued)


def test_compiling_is_counted_where_it_is_the_trainings():
    before = xla_compiles.sample()
    with xla_compiles.paused():
        jax.jit(lambda x: x * 3)(2.0)
    assert xla_compiles.sample() == before
    jax.jit(lambda x: jax.jit(lambda y: y * 5)(x) + 1)(2.0)
    after = xla_compiles.sample()
    assert after.programs == before.programs + 1
    assert after.seconds > before.seconds
    xla_compiles.first_step_ended()
    assert xla_compiles.recompiles() == 0
    jax.jit(lambda x: x * 7)(2.0)
    assert xla_compiles.recompiles() == 1


def test_an_all_reduce_is_compiled_before_it_is_timed():
    launch = Reduction().launch_of(7)
    before = xla_compiles.sample()
    jax.block_until_ready(launch())
    assert xla_compiles.sample() == before


SMALL = canary.Work(
    side=64, copied=100, reduced=10, matmul_s=0.0, copy_s=0.0, all_reduces=5, launches=3
)


@pytest.mark.parametrize(
    ("precision", "on_gpu", "dtype"),
    [("fp32", False, "float32"), ("bf16", False, "float32"), ("bf16", True, "bfloat16")],
)
def test_the_canary_multiplies_what_the_case_computes_in(
    monkeypatch: pytest.MonkeyPatch, precision: str, on_gpu: bool, dtype: str
):
    factors: list[Any] = []

    def noted(left: Any, right: Any) -> Any:
        factors.append((left.dtype.name, right.dtype.name))
        return left @ right

    monkeypatch.setattr(canary, "work_of", lambda *, on_gpu: SMALL)
    monkeypatch.setattr(jnp, "matmul", noted)
    found = measure_canary(Reduction(), precision, on_gpu=on_gpu)
    assert all(name.startswith("sustained_") is on_gpu for name in found)
    assert sum(rate is not None for rate in found.values()) == 2
    assert set(factors) == {(dtype, dtype)}


def test_the_fixed_step_trains_and_counts_as_no_compilation(monkeypatch: pytest.MonkeyPatch):
    found: list[Any] = []

    def noted(value: Any) -> Any:
        found.append(value)
        return value

    monkeypatch.setattr(jax, "block_until_ready", noted)
    before = xla_compiles.sample()
    step = framework.fixed_step()
    step.run()
    step.run()
    assert xla_compiles.sample() == before
    assert jax.__version__ in step.name
    first, second = found
    for one, other in zip(first, second, strict=True):
        assert np.array_equal(one, other)
        assert np.abs(one).max() > 0


def test_a_float32_product_is_one():
    assert 0 < product_error() < 1e-6
    assert np.isfinite(product_error())


def test_a_run_that_is_judged_loads_no_profiler():
    program = (
        "import sys; import pytest_dlperf.worker.frameworks.jax.framework;"
        "print(*(name for name in sys.modules if 'xplane' in name or 'xla_operators' in name))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""
