"""Traces two steps of a rank, of which the second counts, and writes down what it asks for."""

from __future__ import annotations

import contextlib
import gc
import os
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

import torch
from torch._subclasses import fake_tensor

from pytest_dlperf.core.secret_texts import masked, secrets_of
from pytest_dlperf.core.wire_cost import COST_FORMAT, CostRecord, StageCost
from pytest_dlperf.core.wire_parallel import Parallel
from pytest_dlperf.core.writable import error_words, shortened
from pytest_dlperf.worker.arguments import Arguments
from pytest_dlperf.worker.cost.places import Places, workload_file
from pytest_dlperf.worker.cost.record_file import Progress
from pytest_dlperf.worker.cost.version_problem import version_problem
from pytest_dlperf.worker.failure import WorkerFailure
from pytest_dlperf.worker.frameworks.torch import watch
from pytest_dlperf.worker.frameworks.torch.cost.attention import fused_attention
from pytest_dlperf.worker.frameworks.torch.cost.collectives import Collectives
from pytest_dlperf.worker.frameworks.torch.cost.compiled import Compiled
from pytest_dlperf.worker.frameworks.torch.cost.dispatch import Dispatch
from pytest_dlperf.worker.frameworks.torch.cost.fake_device import DEVICE, SHOWN, fake_device
from pytest_dlperf.worker.frameworks.torch.cost.fake_ranks import FakeRanks
from pytest_dlperf.worker.frameworks.torch.cost.gpu_autocast import gpu_autocast
from pytest_dlperf.worker.frameworks.torch.cost.host_waits import HostWaits
from pytest_dlperf.worker.frameworks.torch.cost.memory import Memory
from pytest_dlperf.worker.frameworks.torch.cost.missing_shapes import missing_shapes
from pytest_dlperf.worker.frameworks.torch.cost.module_paths import ModulePaths
from pytest_dlperf.worker.frameworks.torch.cost.operators import Operators
from pytest_dlperf.worker.frameworks.torch.cost.storages import dtype_of
from pytest_dlperf.worker.frameworks.torch.job import TorchJob
from pytest_dlperf.worker.job import DATA_WORKERS_OPTION
from pytest_dlperf.worker.workload import build

#: Of every trace.
NOTES: Final = (
    "Kernels, their fusion by a compiler, clocks, scheduling and the choice of an algorithm are "
    "not seen.",
)


def trace(arguments: Arguments) -> CostRecord:
    """Return the cost of a step of the case, or the problem that kept it from being traced."""
    places = Places(workload_file(arguments.workload))
    try:
        return _record(arguments, places)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # of whatever a workload does
        traceback.print_exception(error)
        problem = _problem(error)
        secrets = secrets_of(os.environ)
        return CostRecord(
            format=COST_FORMAT,
            problem=shortened(masked(problem, secrets)),
            place=places.error_place(error),
        )


def _record(arguments: Arguments, places: Places) -> CostRecord:
    watch.set_tf32(on=arguments.precision == "tf32")
    parallel = Parallel.parse(arguments.parallel)
    progress = Progress(arguments.folder)
    traces = []
    for stage in range(parallel.pp):
        rank = stage * parallel.cp * parallel.tp
        words = f"stage {stage + 1} of {parallel.pp}, " if parallel.pp > 1 else ""
        traced = RankTrace(replace(arguments, rank=rank), places, progress, words)
        traces.append(traced)
        traced.run()
    notes = {note for traced in traces for note in traced.notes()}
    record = CostRecord(
        format=COST_FORMAT,
        framework="torch",
        framework_version=torch.__version__,
        world_size=arguments.world_size,
        parameters=sum(traced.parameters for traced in traces),
        stages=[traced.cost for traced in traces],
        notes=[*NOTES, *sorted(notes)],
    )
    if traces[0].work is not None:
        record["work"] = traces[0].work * arguments.world_size
    return record


class RankTrace:
    """The trace of one rank."""

    def __init__(
        self, arguments: Arguments, places: Places, progress: Progress, words: str
    ) -> None:
        self._arguments, self._places = arguments, places
        self._progress, self._words = progress, words
        self._paths, self._operators = ModulePaths(), Operators()
        self._collectives, self._memory = Collectives(), Memory()
        self._waits = HostWaits(places)
        self._autocast_notes: set[str] = set()
        self._dispatch = Dispatch(
            self._paths, self._operators, self._collectives, self._memory, self._waits, progress
        )
        self._compiled = Compiled(places)
        #: Of the whole model, as far as this rank knows it.
        self.parameters = 0
        #: Of this rank in the step; None where the workload does not say it.
        self.work: float | None = None
        self.cost: StageCost

    def run(self) -> None:
        """Trace the rank."""
        arguments = self._arguments
        ranks = FakeRanks(
            arguments.rank, arguments.world_size, self._paths, self._collectives, self._memory
        )
        ranks.has_stages = Parallel.parse(arguments.parallel).pp > 1
        with contextlib.ExitStack() as opened:
            opened.enter_context(ranks.join())
            on_gpu = arguments.device == "gpu"
            opened.enter_context(fake_device(self._places, as_gpu=on_gpu))
            opened.enter_context(missing_shapes())
            opened.enter_context(fused_attention())
            opened.enter_context(self._memory.follow())
            opened.enter_context(self._waits.follow())
            opened.enter_context(self._collectives.follow())
            opened.enter_context(_without_shapes_of_dtensors(self._dispatch))
            opened.enter_context(self._dispatch)
            self._progress.begin(f"{self._words}build")
            job = _job(arguments)
            if arguments.work is not None:
                job.work(arguments.work)
            autocast = opened.enter_context(contextlib.ExitStack())
            if on_gpu:
                autocast.enter_context(gpu_autocast(self._places, self._autocast_notes))
            with self._dispatch.uncounted():
                step = build(arguments.workload, job)
            with self._paths.follow(), self._compiled.as_plain_python():
                self._progress.begin(f"{self._words}step 1 of 2")
                with self._dispatch.uncounted():
                    step()
                with _uncollected():
                    self._begin(job)
                    self._progress.begin(f"{self._words}step 2 of 2")
                    loss = step()
                    self._end(job)
            del loss
            self._progress.begin(f"{self._words}compiled parts")
            # Graphs break alike, and Dynamo does not follow operators in Python
            autocast.close()
            with self._dispatch.uncounted():
                self._compiled.look(step)
            self.cost["graph_breaks"] = self._compiled.graph_breaks
            self.cost["recompilations"] = self._compiled.recompilations

    def _begin(self, job: TorchJob) -> None:
        for module in job.modules:
            self._paths.know(module)
        self._paths.forget_graph()
        self._tag()
        self._operators.begin()
        self._collectives.begin()
        self._waits.begin()
        self._memory.begin()

    def _tag(self) -> None:
        """Say what tensors are held for."""
        paths, memory = self._paths, self._memory
        for parameter in self._held():
            path = paths.parameter_path(parameter)
            memory.tag(parameter, "parameters", path)
            memory.tag(parameter.grad, "gradients", path)
        for optimizer in paths.optimizers:
            for parameter, state in optimizer.state.items():
                for value in state.values():
                    memory.tag(value, "optimizer", paths.parameter_path(parameter))

    def _held(self) -> list[torch.Tensor]:
        """Return the parameters of this rank: of its modules, and those that it updates."""
        of_modules = (p for module in self._paths.outermost for p in module.parameters())
        updated = (
            parameter
            for optimizer in self._paths.optimizers
            for group in optimizer.param_groups
            for parameter in group["params"]
        )
        return list({id(p): p for p in (*of_modules, *updated)}.values())

    def _end(self, job: TorchJob) -> None:
        self.work = job.iteration_work
        self._tag()
        held = self._held()
        by_dtype: dict[str, int] = {}
        for parameter in held:
            local = getattr(parameter, "_local_tensor", parameter)
            dtype = dtype_of(parameter)
            by_dtype[dtype] = by_dtype.get(dtype, 0) + local.numel()
        self.parameters = sum(parameter.numel() for parameter in held)
        operators, collectives = self._operators.cost(), self._collectives.cost()
        memory = self._memory.cost()
        used = {part["path"] for part in (*operators, *collectives, *memory["at_peak"])}
        self.cost = StageCost(
            rank=self._arguments.rank,
            flops=self._operators.flops(),
            operators=operators,
            layers=self._paths.layers(used),
            launches=self._operators.launches,
            collectives=collectives,
            memory=memory,
            host_waits=self._waits.cost(),
            parameters=dict(sorted(by_dtype.items())),
            graph_breaks=[],
            recompilations=0,
        )

    def notes(self) -> Iterator[str]:
        """Return what this trace cannot see of its workload, a sentence each."""
        yield from self._waits.notes
        yield from self._autocast_notes
        if self._compiled.note:
            yield self._compiled.note
        for name, dtypes in self._operators.uncounted.items():
            yield (
                f"{name} may multiply in {', '.join(sorted(dtypes)) or 'some dtype'}, and has no "
                "formula: its FLOPs are left out"
            )
        for name in sorted(self._collectives.unknown):
            yield f"{name} may be a collective, and is not known here: it is left out"
        if not any(operator["phase"] == "optimizer" for operator in self.cost["operators"]):
            yield "The step that counts makes no update: it is one that only adds to gradients"


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Keep Python's garbage collector from running while open.

    When it would run depends on every object that Python makes, and so would the peak of a step
    that leaves tensors in cycles of references.
    """
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _job(arguments: Arguments) -> TorchJob:
    is_amp = arguments.precision == "amp"
    # Workers would be forked out of the trace
    options = {**arguments.options, DATA_WORKERS_OPTION: 0}
    return TorchJob.of(
        replace(arguments, options=options),
        device=SHOWN if arguments.device == "gpu" else DEVICE,
        dtype=torch.float16 if arguments.precision == "pure_fp16" else torch.float32,
        scaler=torch.amp.GradScaler("cuda") if is_amp else None,
    )


@contextlib.contextmanager
def _without_shapes_of_dtensors(dispatch: Dispatch) -> Iterator[None]:
    """Count nothing while a DTensor asks which shape a result will have."""
    from torch.distributed.tensor._sharding_prop import ShardingPropagator

    from pytest_dlperf.worker.cost.replaced import wrapped

    def wrap(method: Callable[..., Any]) -> Callable[..., Any]:
        def asked(*args: Any, **kwargs: Any) -> Any:
            with dispatch.suspended():
                return method(*args, **kwargs)

        return asked

    names = ("_propagate_tensor_meta_non_cached", "_propagate_tensor_meta")
    with contextlib.ExitStack() as opened:
        for name in names:
            if name in vars(ShardingPropagator):
                opened.enter_context(wrapped(ShardingPropagator, name, wrap))
        yield


def _problem(error: BaseException) -> str:
    """Return why a workload was not traced, a sentence."""
    operator = getattr(error, "func", None)
    if isinstance(error, fake_tensor.DynamicOutputShapeException):
        return (
            f"the shape of what {operator} returns depends on numbers, which a trace has not; "
            "let the step pad to a fixed length, or measure this case"
        )
    if isinstance(error, fake_tensor.UnsupportedOperatorException):
        how = (
            ""
            if str(operator).startswith("aten.")
            else ("register one by torch.library.register_fake, or ")
        )
        return f"{operator} has no implementation for fake tensors; {how}measure this case"
    if isinstance(error, fake_tensor.DataDependentOutputException):
        return (
            f"{operator} needs numbers of the device, which a trace has not; keep it out of the "
            "step, or measure this case"
        )
    if isinstance(error, SystemExit):
        return f"the workload ended its process by SystemExit({error.code!r}); let it return"
    if isinstance(error, WorkerFailure):
        return str(error)
    if problem := version_problem(error, "torch", torch.__version__):
        return problem
    words = error_words(error)
    if "no fake impl registered" in words or "with Meta tensors" in words:
        return (
            f"{words.splitlines()[0][:300]} Register one by torch.library.register_fake, or "
            "measure this case"
        )
    if ".numpy() is not supported" in words:
        return (
            ".numpy() needs numbers of the device, which a trace has not; keep it out of the "
            "step, or measure this case"
        )
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    if any("/torch/cuda/" in file for file in files) or "NVIDIA driver" in words:
        return (
            f"{words.splitlines()[0][:300]}: a trace has no GPU; let the workload use job.device "
            "and no function of torch.cuda, or measure this case"
        )
    return words
