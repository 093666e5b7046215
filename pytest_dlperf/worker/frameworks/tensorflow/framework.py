"""TensorFlow in one rank."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import tensorflow as tf

from pytest_dlperf.core.wire_model import ArithmeticRecord, Checksum, ModelRecord
from pytest_dlperf.core.wire_profile import ProfileRecord
from pytest_dlperf.core.wire_records import (
    CanaryRates,
    CollectivesRecord,
    FrameworkRecord,
    MemoryRecord,
)
from pytest_dlperf.worker.arguments import Arguments
from pytest_dlperf.worker.failure import WorkerFailure
from pytest_dlperf.worker.frameworks import canary, on_cpu
from pytest_dlperf.worker.frameworks.base import (
    Timer,
    checksum_of,
    gpu_of,
    named_gpu,
    no_loss,
    tf32_overrides,
)
from pytest_dlperf.worker.frameworks.tensorflow import ranks, watch
from pytest_dlperf.worker.frameworks.tensorflow.job import TensorflowJob
from pytest_dlperf.worker.frameworks.tensorflow.ranks import Ranks


def measure_canary(ranks: Ranks, precision: str, *, on_gpu: bool) -> CanaryRates:
    """Return the canary's rates on this rank.

    A negation takes the place of the copy, since TensorFlow's own copies share their buffers.
    """
    work = canary.work_of(on_gpu=on_gpu)
    sides = work.side, work.side
    if on_gpu:
        random = tf.random.Generator.from_seed(1)
        dtype = canary.HALF.get(precision, "float32")
        left, right = (tf.cast(random.normal(sides), dtype) for _ in range(2))
    else:
        left, right = tf.ones(sides), tf.ones(sides)
    source = tf.ones(work.copied)
    message = tf.zeros(work.reduced)
    all_reduce = tf.function(lambda tensor: ranks.average([tensor])[0])
    launches = canary.Launches(
        matmul=lambda: tf.matmul(left, right),
        copy=lambda: tf.negative(source),
        all_reduce=(lambda: all_reduce(message)) if ranks.backend is not None else None,
        wait=_wait,
    )
    return canary.measure(launches, work, on_gpu=on_gpu)


def all_reduce_of(ranks: Ranks, size_bytes: int, *, on_gpu: bool) -> Callable[[], None]:
    """Return a function that reduces a float32 message; on a CPU it waits for it.

    It is reduced once here, by all ranks: the function is traced then.
    """
    message = tf.zeros(size_bytes // 4)
    all_reduce = tf.function(lambda tensor: ranks.average([tensor])[0])
    _wait(all_reduce(message))
    if on_gpu:
        return lambda: all_reduce(message)
    return lambda: _wait(all_reduce(message))


def _wait(result: Any) -> None:
    # One number of it: to fetch all would be measured too.
    tf.reshape(result, [-1])[0].numpy()


_POLICIES: Final = {
    "fp32": "float32",
    "tf32": "float32",
    "amp": "mixed_float16",
    "bf16": "mixed_bfloat16",
}
#: The workload option that this module reads itself, since threads are set before any work.
INTER_OP_OPTION: Final = "inter_op_parallelism_threads"


def product_error() -> float:
    """Return the relative error of one float32 product, as in ``torch/watch.py``."""
    random = tf.random.Generator.from_seed(1)
    left, right = (random.normal([256, 256]) for _ in range(2))
    exact = tf.matmul(tf.cast(left, tf.float64), tf.cast(right, tf.float64))
    error = tf.norm(tf.cast(tf.matmul(left, right), tf.float64) - exact) / tf.norm(exact)
    return float(error.numpy())


class Tensorflow:
    """TensorFlow as the loop sees it."""

    def __init__(self, arguments: Arguments) -> None:
        _check_keras()
        self._tf32_default = tf.config.experimental.tensor_float_32_execution_enabled()
        if arguments.precision in {"fp32", "tf32"}:
            # TensorFlow lets matrix work use TF32 by default; a case named fp32 must not.
            tf.config.experimental.enable_tensor_float_32_execution(arguments.precision == "tf32")
        self._gpu = _gpu(arguments)
        _set_threads(arguments)
        self._ranks = ranks.join(arguments)
        _set_policy(arguments.precision)
        tf.keras.utils.set_random_seed(arguments.seed)
        self.job = TensorflowJob.of(
            arguments,
            device="/CPU:0" if self._gpu is None else "/GPU:0",
            dtype=tf.float32,
            ranks=self._ranks,
        )
        self._shapes = watch.first_call()
        self._flops = watch.FlopsByDtype()

    def facts(self) -> FrameworkRecord:
        """Return versions, device and arithmetic defaults."""
        build = tf.sysconfig.get_build_info()
        details = {} if self._gpu is None else tf.config.experimental.get_device_details(self._gpu)
        return {
            "framework": "tensorflow",
            "framework_version": tf.__version__,
            "cuda": build.get("cuda_version"),
            "rocm": build.get("rocm_version"),
            "cudnn": build.get("cudnn_version"),
            "nccl": None,
            "backend": self._ranks.backend,
            **self._ranks.facts(),
            "device": self.job.device,
            "device_name": details.get("device_name"),
            # TensorFlow names no GPU; /physical_device:GPU:0 is the first visible one
            "device_id": None
            if self._gpu is None
            else named_gpu(int(self._gpu.name.rpartition(":")[2])),
            "timing": on_cpu.HOST_CLOCK,
            "tf32_default": self._tf32_default,
            "threads": tf.config.threading.get_intra_op_parallelism_threads(),
            "inter_op_threads": tf.config.threading.get_inter_op_parallelism_threads(),
        }

    def timer(self) -> Timer:
        """Return a timer on the host's clock, which waits for a GPU at each lap.

        TensorFlow shows no events of its streams. The source report's sessions waited as well:
        they returned the loss of every step.
        """
        return on_cpu.CpuTimer() if self._gpu is None else on_cpu.WaitingTimer(self.synchronise)

    def synchronise(self) -> None:
        """Wait for the GPU; a CPU has nothing to wait for."""
        if self._gpu is not None:
            tf.test.experimental.sync_devices()

    def barrier(self) -> None:
        """Wait for all ranks."""
        self._ranks.average([tf.zeros(1)])
        self.synchronise()

    def keep_loss(self, loss: Any) -> Any:
        """Return the loss; an eager tensor holds no graph. On the CPU a number, as in PyTorch."""
        if tf.is_tensor(loss) and loss.shape.num_elements() == 1:
            if self._gpu is None:
                return self.loss_value(loss)
            # Tensors never change, a variable does.
            return loss.read_value() if isinstance(loss, tf.Variable) else loss
        if isinstance(loss, float):
            return loss
        raise no_loss(loss)

    def loss_value(self, kept: Any) -> float:
        """Return a kept loss as a number."""
        return float(kept.numpy().item() if tf.is_tensor(kept) else kept)

    def watch_shapes(self) -> AbstractContextManager[Any]:
        """Note the shapes of the first layer call's tensors."""
        return self._shapes

    def watch_arithmetic(self) -> AbstractContextManager[Any]:
        """Count floating-point operations by dtype."""
        return self._flops

    def model(self) -> ModelRecord:
        """Return what was watched, and the number of trainable parameters."""
        models = self.job.models or self._shapes.layers
        record = ModelRecord(
            input_shapes=self._shapes.shapes,
            flops_by_dtype=dict(self._flops.flops),
            parameter_count=sum(
                variable.shape.num_elements()
                for model in models
                for variable in model.trainable_variables
            ),
        )
        if self._flops.uncounted:
            record["uncounted"] = dict(self._flops.uncounted)
        return record

    def arithmetic(self) -> ArithmeticRecord:
        """Return TensorFlow's one flag for TF32, and the error of one product."""
        return {
            "tf32": {"all": tf.config.experimental.tensor_float_32_execution_enabled()},
            "overrides": tf32_overrides(),
            "product_error": product_error(),
        }

    def checksum(self) -> Checksum | None:
        """Return a digest of the bytes of the replicated variables, in order of declaration."""
        if self.job.declared is None:
            return None
        return checksum_of(variable.numpy().tobytes() for variable in self.job.declared)

    def canary(self) -> CanaryRates:
        """Return the canary's rates."""
        return measure_canary(self._ranks, self.job.precision, on_gpu=self._gpu is not None)

    def mean_over_ranks(self, value: float) -> float:
        """Return the mean of ``value``, the same number on every rank."""
        return float(self._ranks.average([tf.constant(value, tf.float32)])[0].numpy())

    def all_reduce_of(self, size_bytes: int) -> Callable[[], None]:
        """Return a function that starts to reduce a float32 message over the ranks."""
        return all_reduce_of(self._ranks, size_bytes, on_gpu=self._gpu is not None)

    def sample_collectives(self, step: Callable[[], Any], folder: Path) -> CollectivesRecord:
        """Return the seconds of collectives in a few steps, from Horovod's timeline."""
        return watch.sample_collectives(self, step, self._ranks, folder)

    def profile(self, step: Callable[[], Any], folder: Path) -> ProfileRecord:
        """Return what TensorFlow's profiler shows of a few steps."""
        # Nothing of it is loaded in a run that is judged
        from pytest_dlperf.worker.frameworks.tensorflow.profile import profile

        return profile(self, step, folder, on_gpu=self._gpu is not None)

    def release_memory(self) -> None:
        """Do nothing: TensorFlow keeps what it took, and shows no figure of it."""

    def reset_peak_memory(self) -> None:
        """Begin to look for the GPU's peak; a process's own cannot be reset."""
        if self._gpu is not None:
            tf.config.experimental.reset_memory_stats("GPU:0")

    def peak_memory(self) -> MemoryRecord:
        """Return bytes allocated on the GPU at the peak, or the process's largest resident set."""
        if self._gpu is None:
            return {"bytes": on_cpu.peak_resident_set_bytes(), "kind": "resident-set"}
        peak = tf.config.experimental.get_memory_info("GPU:0")["peak"]
        return {"bytes": peak, "kind": "gpu-allocated"}

    def waits_within(self, step: Callable[[], Any]) -> bool | None:
        """Return None: the framework does not say it."""
        return None

    def delay(self, share: float, typical_s: float) -> Callable[[float], None]:
        """Spin on the CPU, after the GPU is done: TensorFlow has no kernel that waits."""
        if self._gpu is None:
            return lambda step_s: on_cpu.spin(share * step_s)

        def after_the_gpu(_step_s: float) -> None:
            self.synchronise()
            on_cpu.spin(share * typical_s)

        return after_the_gpu

    def close(self) -> None:
        """Leave together: a rank whose peer left before it sees an error."""
        self.barrier()
        self._ranks.close()


def _check_keras() -> None:
    # Keras 2 within TensorFlow does not tell its version.
    version = getattr(tf.keras, "__version__", "2")
    if int(version.partition(".")[0]) >= 3:
        raise WorkerFailure(
            "framework-too-new",
            f"TensorFlow {tf.__version__} brings Keras {version}, whose variables "
            "Horovod cannot average; pip install tf_keras, and set TF_USE_LEGACY_KERAS=1",
        )


def _gpu(arguments: Arguments) -> Any:
    """Make this rank's GPU the only one that it sees; None for a case on CPUs."""
    if arguments.device == "cpu":
        tf.config.set_visible_devices([], "GPU")
        return None
    gpus = tf.config.list_physical_devices("GPU")
    index = gpu_of(arguments.local_rank, len(gpus))
    if index is None:
        built = "with" if tf.test.is_built_with_gpu_support() else "without"
        raise WorkerFailure(
            "device-unusable",
            f"local rank {arguments.local_rank} has no GPU: tensorflow {tf.__version__} (built "
            f"{built} GPU support) sees {len(gpus)}; install a build for this driver, or name "
            "CPU processes with --cpus",
        )
    gpu = gpus[index]
    tf.config.set_visible_devices(gpu, "GPU")
    # Else the first rank to look takes all of the memory.
    tf.config.experimental.set_memory_growth(gpu, True)
    return gpu


def _set_threads(arguments: Arguments) -> None:
    tf.config.threading.set_intra_op_parallelism_threads(arguments.threads_per_rank)
    # On a CPU a rank has its share of the cores and no more; TensorFlow takes all by default.
    default = 0 if arguments.device == "gpu" else 1
    inter_op = int(arguments.options.get(INTER_OP_OPTION, default))
    tf.config.threading.set_inter_op_parallelism_threads(inter_op)


def _set_policy(precision: str) -> None:
    if precision not in _POLICIES:
        raise WorkerFailure(
            "precision-unsupported",
            f"precision {precision} is not there for tensorflow; use one of "
            f"{', '.join(_POLICIES)}",
        )
    tf.keras.mixed_precision.set_global_policy(_POLICIES[precision])
