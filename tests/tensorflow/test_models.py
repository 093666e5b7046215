"""The model, and what is counted of it, are what papers and reports say."""

from __future__ import annotations

import pytest
import tensorflow as tf

from perf_tests.resnet50 import tf_horovod_train as resnet50
from perf_tests.resnet50.recipe import SIZES
from pytest_dlperf.worker.frameworks.tensorflow import watch
from pytest_dlperf.worker.frameworks.tensorflow.framework import Tensorflow
from pytest_dlperf.worker.frameworks.tensorflow.job import TensorflowJob
from pytest_dlperf.worker.frameworks.tensorflow.ranks import Alone
from pytest_dlperf.worker.frameworks.tensorflow.watch import FlopsByDtype, first_call

pytestmark = [
    pytest.mark.tensorflow,
    # Keras 2.15 draws its seeds so.
    pytest.mark.filterwarnings("ignore:non-integer arguments to randrange:DeprecationWarning"),
]


@pytest.fixture(scope="module")
def full() -> tf.keras.Model:
    return resnet50.resnet50(SIZES["full"], batch=1)


def job(**fields) -> TensorflowJob:
    tf.keras.utils.set_random_seed(0)
    values = {
        "rank": 0, "local_rank": 0, "world_size": 1, "device": "/CPU:0", "precision": "fp32",
        "batch_size_per_device": 4, "size": "tiny", "seed": 0, "ranks": Alone(),
    }  # fmt: skip
    return TensorflowJob(**values | fields)


def test_resnet50_is_that_of_torchvision(full):
    """25,557,032 parameters and 4.09 billion multiply-adds (torchvision, ResNet50_Weights)."""
    trainable = sum(variable.shape.num_elements() for variable in full.trainable_variables)
    assert trainable == 25_557_032
    forward = tf.function(lambda images: full(images, training=False))
    images = tf.zeros((1, 224, 224, 3))
    forward(images)
    with (flops := FlopsByDtype()):
        forward(images)
    assert set(flops.flops) == {"float32"}
    assert flops.flops["float32"] / 2 == pytest.approx(4.09e9, rel=0.002)


def test_resnet50_has_its_stride_in_the_3x3_and_spares_norms_of_decay(full):
    convolutions = [la for la in full.layers if isinstance(la, tf.keras.layers.Conv2D)]
    strided = [la for la in convolutions if la.strides == (2, 2) and la.kernel_size == (3, 3)]
    assert len(strided) == 3
    decayed = sum(v.shape.num_elements() for v in resnet50.decayed_variables(full))
    assert 25_557_032 - decayed == 53_120


def test_resnet50_learns_its_one_batch():
    step = resnet50.build(job())
    with (shapes := first_call()):
        losses = [float(step())]
    with (flops := FlopsByDtype()):
        losses.append(float(step()))
    losses += [float(step()) for _ in range(38)]
    assert sum(losses[-5:]) < 0.9 * sum(losses[:5])
    assert shapes.shapes == [[4, 32, 32, 3]]
    assert set(flops.flops) == {"float32"}


@pytest.mark.parametrize(
    ("policy", "dtype"), [("float32", "float32"), ("mixed_bfloat16", "bfloat16")]
)
def test_flops_are_counted_by_the_dtype_of_operations(policy: str, dtype: str):
    convolution = tf.keras.layers.Conv2D(8, 3, padding="same", use_bias=False, dtype=policy)
    convolution.build((2, 16, 16, 4))
    matrix = tf.Variable(tf.ones((8, 5)))

    @tf.function(jit_compile=True)
    def inner(images):
        return tf.reduce_mean(tf.cast(convolution(images), tf.float32), [1, 2])

    @tf.function
    def outer(images):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.einsum("ij,jk->ik", inner(images), matrix))
        return tape.gradient(loss, [*convolution.trainable_variables, matrix])

    images = tf.ones((2, 16, 16, 4))
    outer(images)
    with (flops := FlopsByDtype()):
        outer(images)
    one = 2 * (2 * 16 * 16 * 8) * (3 * 3 * 4)
    product = 2 * 2 * 8 * 5
    # The gradient of a function within a function is that of all its inputs, images too.
    expected = {dtype: 3 * one}
    expected["float32"] = expected.get("float32", 0) + 3 * product
    assert dict(flops.flops) == expected


def test_what_has_no_formula_is_named_and_ends_nothing(monkeypatch: pytest.MonkeyPatch):
    kernel = tf.Variable(tf.ones((3, 3, 4, 2)))

    @tf.function
    def by_channels(images):
        with tf.GradientTape() as tape:
            tape.watch(images)
            found = tf.reduce_sum(tf.nn.depthwise_conv2d(images, kernel, [1] * 4, "SAME"))
        return tape.gradient(found, [images, kernel])

    @tf.function
    def sparse(matrix):
        eye = tf.sparse.from_dense(tf.eye(4))
        return tf.sparse.sparse_dense_matmul(eye, matrix) @ matrix

    images, matrix = tf.ones((2, 16, 16, 4)), tf.ones((4, 4))
    by_channels(images), sparse(matrix)
    with (counted := FlopsByDtype()):
        by_channels(images)
    assert dict(counted.flops) == {"float32": 3 * 2 * (2 * 16 * 16 * 8) * 9}
    assert not counted.uncounted
    with (counted := FlopsByDtype()):
        sparse(matrix)
    assert dict(counted.flops) == {"float32": 2 * 4**3}
    assert list(counted.uncounted) == ["SparseTensorDenseMatMul"]
    monkeypatch.setitem(watch._MULTIPLY_ADDS, "MatMul", lambda operation: operation.nothing)
    with (counted := FlopsByDtype()):
        sparse(matrix)
    assert "sparse" in " ".join(counted.uncounted)


def weights_after_steps(precision: str, *, compiled: bool):
    one = job(precision=precision)
    layer = tf.keras.layers.Dense(3, dtype="float32")
    layer.build((4, 5))
    start = layer.kernel.numpy()
    optimizer = one.optimizer(tf.keras.optimizers.SGD(0.1, momentum=0.5))
    x = one.generator().normal((4, 5))

    @tf.function(jit_compile=compiled)
    def gradients():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(layer(x) ** 2)
        return one.gradients(tape, loss, layer.trainable_variables)

    @tf.function
    def step():
        one.update(optimizer, gradients(), layer.trainable_variables)

    for _ in range(3):
        step()
    assert abs(layer.kernel.numpy() - start).max() > 0.01
    return layer.kernel.numpy()


@pytest.mark.parametrize("precision", ["fp32", "amp"])
def test_compiled_gradients_are_those_of_the_plain_graph(precision: str):
    plain = weights_after_steps(precision, compiled=False)
    assert weights_after_steps(precision, compiled=True) == pytest.approx(plain, rel=1e-5)


def test_amp_scales_its_loss_and_steps_by_gradients_of_their_true_size():
    weight = tf.Variable([2.0])
    scaled = job(precision="amp")
    optimizer = scaled.optimizer(tf.keras.optimizers.SGD(0.5))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(3.0 * weight)
    assert not scaled.scaler.is_enabled()
    [gradient] = scaled.gradients(tape, loss, [weight])
    assert scaled.scaler.is_enabled()
    assert gradient.numpy() == pytest.approx(3 * 2**15)
    scaled.update(optimizer, [gradient], [weight], clip_norm=1.0)
    assert weight.numpy() == pytest.approx(2 - 0.5 * 1.0)


def test_a_loss_on_the_cpu_is_kept_as_a_number():
    """A tensor kept for each iteration holds the heap open around it, and memory grows."""
    loss = tf.constant(1.5)
    framework = object.__new__(Tensorflow)
    framework._gpu = None
    kept = framework.keep_loss(loss)
    assert isinstance(kept, float)
    assert kept == 1.5
