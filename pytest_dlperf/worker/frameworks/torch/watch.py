"""Watches a PyTorch training: shapes and dtypes of its work, TF32, parameters, collectives."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from pytest_dlperf.core.wire_model import Checksum, ShardChecksum
from pytest_dlperf.core.wire_records import CollectivesRecord
from pytest_dlperf.worker import compiling
from pytest_dlperf.worker.failure import WorkerFailure
from pytest_dlperf.worker.frameworks import collectives
from pytest_dlperf.worker.frameworks.base import FirstCall, Framework, checksum_of, shapes_in
from pytest_dlperf.worker.frameworks.collectives import DirectCalls
from pytest_dlperf.worker.frameworks.torch.flops import FlopsByDtype


def first_call() -> FirstCall:
    """Return what notes the first call of a layer."""
    return FirstCall(
        torch.nn.Module,
        lambda values: shapes_in(values, torch.Tensor),
        torch.compiler.is_compiling,
    )


class Watch:
    """Looks at two iterations of a training, and leaves what is compiled as it is.

    Without torch.compile: at the shapes in the first, at the arithmetic in the second. With it the
    first is left alone, since what Dynamo traces must be the training's own code; in the second,
    compiled functions run as plain Python, which compiles nothing and forgets nothing, and both
    are looked at. What replays a CUDA graph does nothing that can be seen: both are looked at when
    ``torch.cuda.graph`` captures it, and each graph counts as often as the second iteration
    replays it.
    """

    def __init__(self, *, is_alone: bool = True) -> None:
        """``is_alone``: no other rank waits for this one within a step."""
        self.shapes = first_call()
        self.arithmetic = FlopsByDtype()
        #: Why nobody looked, and what to do; empty otherwise.
        self.unwatched = ""
        self._is_alone = is_alone
        self._restore: Callable[[], None] = lambda: None
        #: What each captured graph does that still lives.
        self._graphs: weakref.WeakKeyDictionary[Any, FlopsByDtype] = weakref.WeakKeyDictionary()
        #: None until the second iteration.
        self._replayed: list[Any] | None = None

    def captures(self) -> None:
        """Look at what ``torch.cuda.graph`` captures, from now until ``second``."""
        graph, watch = torch.cuda.graph, self
        enter, leave = graph.__enter__, graph.__exit__
        open_now: list[contextlib.ExitStack] = []

        def entered(capture: Any) -> Any:
            result = enter(capture)
            open_now.append(watch._captured(getattr(capture, "cuda_graph", None)))
            return result

        def left(capture: Any, *error: Any) -> Any:
            open_now.pop().close()
            return leave(capture, *error)

        def replayed(captured: Any) -> None:
            if watch._replayed is not None:
                watch._replayed.append(captured)

        restore_replay = note_replays(replayed)

        def restore() -> None:
            graph.__enter__, graph.__exit__ = enter, leave
            restore_replay()

        graph.__enter__, graph.__exit__ = entered, left
        self._restore = restore

    def _captured(self, graph: Any) -> contextlib.ExitStack:
        opened = contextlib.ExitStack()
        if self._replayed is not None:
            # The second iteration counts it at once, and its first replay not again
            if graph is not None:
                self._graphs[graph] = FlopsByDtype()
            return opened
        if compiles():
            # What is captured must be the compiled code.
            self.unwatched = (
                "it replays a CUDA graph of a compiled function, in which no operation can be "
                'seen; let torch.compile(mode="reduce-overhead") capture it, or capture a '
                "function that is not compiled"
            )
            return opened
        if self.shapes.shapes is None:
            opened.enter_context(self.shapes)
        if graph is not None:
            self._graphs[graph] = FlopsByDtype()
            opened.enter_context(self._graphs[graph])
        return opened

    def first(self) -> AbstractContextManager[Any]:
        """Return what is open in the first iteration."""
        return contextlib.nullcontext() if compiles() else self.shapes

    @contextlib.contextmanager
    def second(self) -> Iterator[None]:
        """Look, while open, at what the first iteration has left to see; no longer at captures.

        What the body raises is swallowed where no other rank waits for this one: the step is to be
        done again, of which nothing is seen. A training's own error comes again.
        """
        is_compiled = compiles()
        if is_compiled and not self._graphs:
            # A call in the first iteration was the compiler's own, if it began there.
            self.shapes.shapes, self.shapes.layers = None, []
        if is_compiled and not hasattr(torch.compiler, "set_stance"):
            # Within a dispatch mode a compiled function is never compiled again, and the
            # rest of the training would be measured uncompiled.
            self._forget(
                f"PyTorch {torch.__version__} cannot run a compiled function as plain "
                "Python for one iteration, which 2.6 can; upgrade it"
            )
            self._restore()
            yield
            return
        try:
            with contextlib.ExitStack() as opened:
                if is_compiled:
                    opened.enter_context(torch.compiler.set_stance("force_eager"))
                if self.shapes.shapes is None:
                    opened.enter_context(self.shapes)
                opened.enter_context(self.arithmetic)
                self._replayed = []
                yield
        except WorkerFailure:
            raise
        except Exception as error:  # noqa: BLE001  # of whatever cannot be looked at
            self._give_up(error, is_compiled=is_compiled)
        else:
            self._add_replays()
            if self.shapes.thread not in {None, threading.get_ident()}:
                self.arithmetic.uncounted.note(IN_THREAD, ())
            if not is_compiled and compiles():
                self._forget(
                    "torch.compile met its first function in the second iteration, which is "
                    "looked at; let the first iteration do what all others do"
                )
        finally:
            self._restore()

    def _add_replays(self) -> None:
        """Count what the graphs do that the second iteration replayed."""
        replayed, self._replayed = self._replayed or [], None
        for graph in replayed:
            if graph in self._graphs:
                self.arithmetic.add(self._graphs[graph])
            else:
                self.arithmetic.uncounted.note(REPLAY, ())
        if self._graphs and not replayed and not self.arithmetic.flops:
            self.unwatched = (
                "a CUDA graph was captured, and the second iteration, the one that is looked at, "
                "replayed none; let each iteration replay one"
            )

    def _give_up(self, error: Exception, *, is_compiled: bool) -> None:
        """Raise ``error`` if other ranks wait for this one; else note it, for another try."""
        how = ", where compiled functions run as plain Python," if is_compiled else ""
        if self._is_alone:
            self._forget(
                f"the second iteration, which is looked at{how} raised {type(error).__name__}: "
                f"{str(error)[:500]}; it was repeated without"
            )
            return
        if is_compiled and isinstance(error, torch.OutOfMemoryError):
            raise WorkerFailure(
                "watched-out-of-memory",
                f"{error}. The second iteration is looked at{how} and needs more memory than the "
                "compiled ones; one of several ranks cannot repeat it. Train a smaller batch",
            ) from error
        raise error

    def _forget(self, why: str) -> None:
        self.unwatched, self.arithmetic, self._replayed = why, FlopsByDtype(), None


#: What a CUDA graph's operations are called of which nothing is known.
REPLAY: Final = "torch.cuda.CUDAGraph.replay"
#: What the operations are called of a model that another thread calls: a mode has one thread.
IN_THREAD: Final = "torch.nn.Module.__call__ in another thread"


def note_replays(note: Callable[[Any], None]) -> Callable[[], None]:
    """Call ``note`` with each CUDA graph that is replayed; return what ends it."""
    graphs = torch.cuda.CUDAGraph
    replay = graphs.replay

    def replayed(captured: Any) -> Any:
        note(captured)
        return replay(captured)

    def restore() -> None:
        graphs.replay = replay

    graphs.replay = replayed
    return restore


def compiles() -> bool:
    """Return whether this process has functions of torch.compile, called or not yet.

    That Dynamo is imported does not mean it: PyTorch's optimizers import it.
    """
    if "torch._dynamo" not in sys.modules:
        return False
    if compiling.sample().any:
        return True
    frames: Any = sys.modules.get("torch._dynamo.eval_frame")
    # Functions that are kept from the compiler are there as well, with None or False.
    return any(map(callable, getattr(frames, "cached_backends", {}).values()))


#: Functions of ``torch.distributed`` that a step may call itself; synchronised batch
#: normalisation does.
_DIRECT: Final = (
    "all_gather",
    "all_gather_into_tensor",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
)


def sample_collectives(
    framework: Framework, step: Callable[[], Any], modules: Iterable[torch.nn.Module]
) -> CollectivesRecord:
    """Return what steps of ``modules`` take with and without averaging."""
    wrappers = {
        id(part): part
        for module in modules
        for part in module.modules()
        if isinstance(part, DistributedDataParallel)
    }
    calls = DirectCalls(
        dist, _DIRECT, framework.timer, lambda options: bool(options.get("async_op"))
    )
    return collectives.sample(framework, step, wrappers.values(), calls)


def mean_over_ranks(value: float, device: torch.device) -> float:
    """Return the mean of ``value``, the same number on every rank."""
    total = torch.tensor([value], dtype=torch.float32, device=device)
    dist.all_reduce(total)
    return float(total.item() / dist.get_world_size())


def all_reduce_of(size_bytes: int, device: torch.device) -> Callable[[], None]:
    """Return a function that starts to reduce a float32 message over the ranks."""
    message = torch.zeros(size_bytes // 4, device=device)

    def reduce() -> None:
        dist.all_reduce(message)

    return reduce


#: Side of the product that is verified.
_SIDE = 256


def set_tf32(*, on: bool) -> None:
    """Let matrix products and cuDNN use TF32, or not.

    By the first API, ``allow_tf32``, whose readers in a workload would raise after the second,
    ``fp32_precision`` of PyTorch 2.9; that one always answers, for both.
    """
    torch.backends.cuda.matmul.allow_tf32 = on
    torch.backends.cudnn.allow_tf32 = on


def tf32() -> dict[str, bool]:
    """Return what may use TF32 now: ``matmul``, and ``cudnn`` if convolutions or RNNs may."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    if not hasattr(matmul, "fp32_precision"):
        return {"matmul": bool(matmul.allow_tf32), "cudnn": bool(cudnn.allow_tf32)}
    parts = (cudnn.conv, cudnn.rnn)
    return {
        "matmul": matmul.fp32_precision == "tf32",
        "cudnn": any(part.fp32_precision == "tf32" for part in parts),
    }


def product_error(device: torch.device) -> float:
    """Return the relative error of one float32 product of random numbers, against float64.

    About 2e-7 in float32, 3e-4 in TF32 (10 bits of mantissa), 2e-3 in bfloat16: the Frobenius
    norm of the difference over that of the product.
    """
    made = torch.Generator().manual_seed(1)
    left, right = (torch.randn(_SIDE, _SIDE, generator=made).to(device) for _ in range(2))
    with torch.no_grad(), torch.autocast(device.type, enabled=False):
        product = (left @ right).double().cpu()
        exact = left.double().cpu() @ right.double().cpu()
    return float((product - exact).norm() / exact.norm())


#: Tensors that are shards by hand, each with the number of its part.
_ByHand = Sequence[tuple[int, torch.Tensor]]


def held(modules: Iterable[torch.nn.Module], shards: _ByHand) -> dict[str, int]:
    """Return how many parameters this rank has in memory, by which shard of them it is.

    Those that it has whole are under the empty text.
    """
    parts = {id(parameter): _part(number) for number, parameter in shards}
    counts: Counter[str] = Counter()
    for parameter in (p for module in modules for p in module.parameters()):
        place = parts.pop(id(parameter), None) or _place(parameter) or ""
        counts[place] += _local(parameter).numel()
    for number, parameter in shards:
        if id(parameter) in parts:
            counts[_part(number)] += parameter.numel()
    return dict(counts)


def trains_all(modules: Iterable[torch.nn.Module]) -> bool:
    """Return whether every matrix is trained: a frozen one has half a backward pass, or none."""
    return all(p.requires_grad for module in modules for p in module.parameters() if p.dim() > 1)


def _part(number: int) -> str:
    return f"part {number}"


def checksum(parameters: Sequence[torch.Tensor], shards_by_hand: _ByHand = ()) -> Checksum:
    """Return a digest of the bytes of ``parameters``, in order.

    Of a DTensor the local tensor counts. Those that are sharded have a digest of their own, since
    only ranks with the same shards have equal ones.
    """
    whole, shards, place = [], [], hashlib.blake2b(digest_size=16)
    parts = {id(parameter): _part(number) for number, parameter in shards_by_hand}
    declared = [p for p in parameters if id(p) not in parts]
    for parameter in [*declared, *(parameter for _, parameter in shards_by_hand)]:
        where = parts.get(id(parameter)) or _place(parameter)
        if where is None:
            whole.append(_local(parameter))
        else:
            place.update(f"{where};".encode())
            shards.append(_local(parameter))
    whole_checksum = checksum_of(map(_bytes_of, whole))
    if shards:
        of_shards = checksum_of(map(_bytes_of, shards))
        whole_checksum["shards"] = ShardChecksum(
            digest=of_shards["digest"], tensors=of_shards["tensors"], place=place.hexdigest()
        )
    return whole_checksum


def _place(parameter: Any) -> str | None:
    """Return the placements of a DTensor and which shard is here; None for a whole tensor."""
    if not hasattr(parameter, "placements"):
        return None
    coordinates = parameter.device_mesh.get_coordinate() or ()
    parts = [
        (repr(placement), coordinate)
        for placement, coordinate in zip(parameter.placements, coordinates, strict=False)
        if not placement.is_replicate()
    ]
    return repr(parts) if parts else None


def _local(parameter: Any) -> torch.Tensor:
    local = parameter.detach()
    # The data pointer of a DTensor is null.
    return local.to_local() if hasattr(local, "to_local") else local


def _bytes_of(tensor: torch.Tensor) -> bytes:
    host = tensor.cpu().contiguous()
    return ctypes.string_at(host.data_ptr(), host.numel() * host.element_size())
