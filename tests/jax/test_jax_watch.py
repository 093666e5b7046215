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
from jax.experimental import pallas as pl
from jax.extend.core import Primitive

from pytest_dlperf.worker import xla_compiles
from pytest_dlperf.worker.failure import WorkerFailure
from pytest_dlperf.worker.frameworks import canary
from pytest_dlperf.worker.frameworks.base import PeakWithoutCanary
from pytest_dlperf.worker.frameworks.jax import watch
from pytest_dlperf.worker.frameworks.jax.devices import Reduction, Settled
from pytest_dlperf.worker.frameworks.jax.flops import work_of
from pytest_dlperf.worker.frameworks.jax.framework import measure_canary, product_error

pytestmark = pytest.mark.jax


def flops(function: Callable[..., Any], *shapes: tuple[int, ...], dtype: Any = jnp.float32):
    arguments = [jax.ShapeDtypeStruct(shape, dtype) for shape in shapes]
    return work_of(jax.make_jaxpr(function)(*arguments).jaxpr).flops


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


def work(function: Callable[..., Any], *shapes: tuple[int, ...], dtype: Any = jnp.float32):
    arguments = [jax.ShapeDtypeStruct(shape, dtype) for shape in shapes]
    return work_of(jax.make_jaxpr(function)(*arguments).jaxpr)


def test_groups_of_rows_or_columns_count_once():
    sizes = jnp.array([3, 1])

    def multiplied(rows, matrices):
        return lax.ragged_dot(rows, matrices, sizes).sum()

    given = (4, 8), (2, 8, 16)
    assert flops(multiplied, *given) == {"float32": 2 * 4 * 8 * 16}
    assert flops(jax.grad(multiplied, (0, 1)), *given) == {"float32": 3 * 2 * 4 * 8 * 16}


def of_blocks(grid: tuple[int, ...]) -> Callable[..., Any]:
    """Return a product by a Pallas kernel, of blocks of 16 rows."""

    def kernel(x, y, out):
        out[...] = jnp.dot(x[...], y[...])

    def rows(*place):
        return place[0], 0

    return pl.pallas_call(
        kernel,
        grid=grid,
        in_specs=[pl.BlockSpec((16, 8), rows), pl.BlockSpec((8, 4), lambda *_: (0, 0))],
        out_specs=pl.BlockSpec((16, 4), rows),
        out_shape=jax.ShapeDtypeStruct((64, 4), jnp.float32),
    )


def test_a_kernel_counts_for_each_place_of_its_grid():
    assert flops(of_blocks((4,)), (64, 8), (8, 4)) == {"float32": 2 * 64 * 8 * 4}
    assert flops(of_blocks((4, 3)), (64, 8), (8, 4)) == {"float32": 3 * 2 * 64 * 8 * 4}


def test_what_cannot_be_counted_is_named():
    def called(x):
        return jax.ffi.ffi_call("somewhere", jax.ShapeDtypeStruct((4, 4), jnp.float32))(x @ x)

    found = work(called, (4, 4), dtype=jnp.bfloat16)
    assert found.flops == {"bfloat16": 2 * 4**3}
    assert found.uncounted == {"ffi_call": ["bfloat16"]}
    around = work(lambda x: lax.while_loop(lambda a: a.sum() < 9, lambda a: a @ a, x), (4, 4))
    assert around.uncounted == {"while": ["float32"]}
    added = work(lambda x: lax.while_loop(lambda a: a.sum() < 9, lambda a: a + 1, x), (4, 4))
    assert not added.uncounted
    mine = Primitive("mine")
    mine.def_abstract_eval(lambda x: x)
    assert work(mine.bind, (4, 4)).uncounted == {"mine": ["float32"]}
    # Of the other branch of a cond nothing is counted, and what it has is named
    either = work(lambda x: lax.cond(x[0, 0] > 0, lambda a: a @ a @ a, called, x), (4, 4))
    assert either.flops == {"float32": 4 * 4**3}
    assert either.uncounted == {"ffi_call": ["float32"]}
    host = work(lambda x: jax.pure_callback(np.asarray, x, x) + jax.nn.softmax(x), (4, 4))
    assert not host.uncounted


PRESETS = lax.DotAlgorithmPreset


@pytest.mark.parametrize(
    ("precision", "dtype", "tf32"),
    [
        (None, "float32", {"matmul": [True]}),
        (lax.Precision.DEFAULT, "float32", {"matmul": [True]}),
        (lax.Precision.HIGH, "float32", {"matmul": [True]}),
        (lax.Precision.HIGHEST, "float32", {"matmul": [False]}),
        ("highest", "float32", {"matmul": [False]}),
        (PRESETS.DEFAULT, "float32", {"matmul": [True]}),
        (PRESETS.TF32_TF32_F32, "float32", {"matmul": [True]}),
        (PRESETS.F32_F32_F32, "float32", {"matmul": [False]}),
        (PRESETS.BF16_BF16_F32, "bfloat16", {}),
        (PRESETS.F16_F16_F16, "float16", {}),
        (PRESETS.ANY_F8_ANY_F8_F32, "float8", {}),
    ],
)
def test_each_product_says_what_it_is_done_in(
    precision: Any, dtype: str, tf32: dict[str, list[bool]]
):
    found = work(lambda x: lax.dot(x, x, precision=precision), (4, 4))
    assert found.flops == {dtype: 2 * 4**3}
    assert found.tf32_seen() == tf32


def test_a_product_of_two_dtypes_is_done_in_the_longer():
    """XLA converts the shorter operand: bfloat16 activations by float32 weights."""
    for mixed in (lambda x: x.astype(jnp.bfloat16) @ x, lambda x: x @ x.astype(jnp.bfloat16)):
        found = work(mixed, (4, 4))
        assert found.flops == {"float32": 2 * 4**3}
        assert found.tf32_seen() == {"matmul": [True]}
    both = work(lambda x: x.astype(jnp.int8) @ x.astype(jnp.bfloat16), (4, 4))
    assert both.flops == {"bfloat16": 2 * 4**3}


def test_a_context_says_it_of_the_products_within():
    def both(x):
        with jax.default_matmul_precision("bfloat16"):
            first = x @ x
        return first @ x

    with jax.default_matmul_precision("highest"):
        found = work(both, (4, 4))
        convolved = work(convolution, (2, 8, 8, 3), (3, 3, 3, 16))
    assert found.tf32_seen() == {"matmul": [False, True]}
    assert convolved.tf32_seen() == {"cudnn": [False]}
    assert work(both, (4, 4), dtype=jnp.bfloat16).tf32_seen() == {}


def test_a_jaxpr_that_cannot_be_read_ends_nothing(monkeypatch: pytest.MonkeyPatch):
    def unknown(jaxpr: Any) -> None:
        raise KeyError("dimension_numbers")

    monkeypatch.setattr(watch, "work_of", unknown)
    seen = watch.Watch(list)
    net = jax.jit(lambda x: x @ x)
    with seen.first():
        net(jnp.ones((3, 3)))
    with seen.second():
        net(jnp.ones((3, 3)))
    assert "could not be read: KeyError: 'dimension_numbers'" in seen.unwatched
    assert seen.work.uncounted
    assert jax._src.pjit._pjit_call_impl_python.__qualname__ == "_pjit_call_impl_python"


def test_a_peak_that_cannot_be_reset_is_without_the_canary():
    peaks = [[5, 3], [9, 4], [9, 4]]
    peak = PeakWithoutCanary(lambda: peaks[0])
    assert peak.largest_bytes() == 5
    with peak.canary():
        del peaks[0]
    assert peak.largest_bytes() == 5, "9 was the canary's"
    peaks[0] = [10, 4]
    assert peak.largest_bytes() == 10
    peaks[0] = [9, 8]
    assert peak.largest_bytes() == 8


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
    assert seen.work.flops == {"float32": 2 * 2 * 3 * 4 * 5}
    step()
    assert seen.work.flops == {"float32": 2 * 2 * 3 * 4 * 5}
    assert xla_compiles.sample().programs == compiled, "to look compiles nothing"
    assert jax._src.pjit._pjit_call_impl_python.__qualname__ == "_pjit_call_impl_python"


def test_later_calls_take_the_shortcut_that_they_would_without_it(
    monkeypatch: pytest.MonkeyPatch,
):
    """Each call took JAX's way through Python, 0.1 ms in place of 8 us."""
    weights, x = jnp.ones((4, 5)), jnp.ones((3, 4))
    train = jax.jit(lambda weights, x: (weights * 0.5, (x @ weights).sum()))
    seen = watch.Watch(lambda: weights)
    with seen.first():
        train(weights, x)
    with seen.second():
        train(weights, x)
    compiled = xla_compiles.sample().programs
    train(weights, x)
    run, calls = jax._src.pjit._pjit_call_impl_python, []

    def counted(*args: Any, **parameters: Any) -> Any:
        calls.append(args)
        return run(*args, **parameters)

    monkeypatch.setattr(jax._src.pjit, "_pjit_call_impl_python", counted)
    train(weights, x)
    assert calls == []
    assert xla_compiles.sample().programs == compiled


def test_inputs_of_another_shape_are_seen_in_later_iterations_and_evaluations_are_not():
    weights = jnp.ones((4, 5))
    given: list[Any] = []
    seen = watch.Watch(lambda: weights, given.append)
    train = jax.jit(lambda weights, x: (weights * 0.5, (x @ weights).sum()))
    evaluate = jax.jit(lambda weights, x: (x @ weights).sum())
    try:
        with seen.first():
            train(weights, jnp.ones((3, 4)))
        with seen.second():
            train(weights, jnp.ones((3, 4)))
        assert given == [[[3, 4]]]
        for _ in range(3):
            train(weights, jnp.ones((3, 4)))
            evaluate(weights, jnp.ones((2, 4)))
        assert given == [[[3, 4]]]
        train(weights, jnp.ones((2, 4)))
        assert given[1:] == [[[2, 4]]]
        assert seen.work.flops == {"float32": 2 * 3 * 4 * 5}
    finally:
        seen._restore()


def test_labels_with_the_shape_of_a_parameter_are_inputs():
    weights, bias = jnp.ones((4, 5)), jnp.ones(3)
    seen = watch.Watch(lambda: [weights, bias])
    net = jax.jit(lambda w, b, x, labels: (x @ w).sum() + (b * labels).sum())
    with seen.first():
        net(weights, bias, jnp.ones((3, 4)), jnp.zeros(3, jnp.int32))
    assert seen.shapes == [[3, 4], [3]]


@pytest.mark.parametrize("name", ["_get_fastpath_data", "_cpp_pjit_cache_fun_only"])
def test_a_jax_that_calls_in_another_way_is_not_watched(
    monkeypatch: pytest.MonkeyPatch, name: str
):
    monkeypatch.delattr(jax._src.pjit, name)
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
