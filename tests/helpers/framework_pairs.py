"""The PyTorch and the Paddle training of one suite, from the same weights, on the same batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from itertools import repeat
from types import CellType
from typing import Any

import numpy as np
import paddle
import torch

from pytest_dlperf.worker.frameworks.paddle.job import PaddleJob
from pytest_dlperf.worker.frameworks.torch.job import TorchJob

#: PyTorch's names of what Paddle names otherwise; Paddle's PReLU alone hides its weight.
NAMES = {"_mean": "running_mean", "_variance": "running_var", "_weight": "weight"}


@dataclass
class Training:
    """One framework's training."""

    #: Do one iteration, return its loss.
    step: Callable[[], Any]
    #: What is trained, by the suite's names, which both frameworks share.
    models: dict[str, Any]
    #: The variable of ``step`` that holds its one batch, endlessly repeated.
    batches: CellType


def trainings(suite: str, batch_size: int, dtype: str) -> tuple[Training, Training]:
    """Return PyTorch's and Paddle's tiny training of ``suite`` in ``dtype``, without dropout.

    ``dtype`` is ``float32`` or ``float64``, that of weights and batch.
    """
    torch.manual_seed(0)
    fields = {
        "rank": 0, "local_rank": 0, "world_size": 1, "precision": "fp32", "size": "tiny",
        "batch_size_per_device": batch_size, "seed": 0,
    }  # fmt: skip
    ours = TorchJob(**fields, device=torch.device("cpu"), dtype=torch.float32)
    theirs = PaddleJob(**fields, device="cpu", dtype="float32")
    left = taken_apart(import_module(f"perf_tests.{suite}.torch_train").build(ours))
    right = taken_apart(import_module(f"perf_tests.{suite}.paddle_train").build(theirs))
    assert left.models.keys() == right.models.keys()
    for name, model in left.models.items():
        model.to(getattr(torch, dtype))
        right.models[name].to(dtype=dtype)
        copy_weights(model, right.models[name])
    arrays = [tensor.numpy() for tensor in next(left.batches.cell_contents)]
    arrays = [a.astype(dtype) if a.dtype == "float32" else a for a in arrays]
    seen = [seen_by_paddle(suite, array) for array in arrays]
    left.batches.cell_contents = repeat([torch.from_numpy(array) for array in arrays])
    right.batches.cell_contents = repeat([paddle.to_tensor(array) for array in seen])
    return left, right


def taken_apart(step: Callable[[], Any]) -> Training:
    """Return ``step`` and what it holds; its dropout lets all through from now on."""
    held = dict(zip(step.__code__.co_freevars, step.__closure__, strict=True))
    kinds = {name: cell.cell_contents for name, cell in held.items()}
    models = {n: v for n, v in kinds.items() if isinstance(v, torch.nn.Module | paddle.nn.Layer)}
    for model in models.values():
        parts = model.modules() if isinstance(model, torch.nn.Module) else model.sublayers()
        for part in parts:
            if isinstance(part, torch.nn.Dropout | paddle.nn.Dropout):
                part.p = 0.0
            if hasattr(part, "dropout_p"):
                part.dropout_p = 0.0
    return Training(step, models, held["batches"])


def seen_by_paddle(suite: str, array: np.ndarray) -> np.ndarray:
    """Return a batch of PyTorch's training so that Paddle's computes the same.

    Paddle's ``temporal_shift`` moves the first eighth of the channels forth in time and the
    second back, the authors' code the other way round. Clips that run backwards make the two
    one: a clip's score is the mean over its frames, and nothing else looks at time.
    """
    return array[:, ::-1].copy() if suite == "tsm" and array.ndim == 5 else array


def copy_weights(source: torch.nn.Module, target: paddle.nn.Layer) -> None:
    """Give ``target`` the parameters and running statistics of ``source``, by their names."""
    values = as_in_paddle(source)
    named = {as_in_torch(name): tensor for name, tensor in target.state_dict().items()}
    assert values.keys() == named.keys()
    for name, tensor in named.items():
        assert tuple(tensor.shape) == values[name].shape, name
        tensor.set_value(values[name])


def as_in_torch(name: str) -> str:
    """Return PyTorch's name of Paddle's ``name``."""
    *path, last = name.split(".")
    return ".".join([*path, NAMES.get(last, last)])


def as_in_paddle(model: torch.nn.Module, *, gradients: bool = False) -> dict[str, np.ndarray]:
    """Return the state of ``model``, or its gradients, laid out as Paddle lays them out."""
    if gradients:
        found = {name: parameter.grad for name, parameter in model.named_parameters()}
    else:
        found = {k: v for k, v in model.state_dict().items() if "num_batches" not in k}
    # Paddle multiplies by the matrix that PyTorch's linear layers hold transposed.
    turned = {f"{n}.weight" for n, m in model.named_modules() if isinstance(m, torch.nn.Linear)}
    arrays = {name: value.detach().numpy() for name, value in found.items()}
    return {name: a.T if name in turned else a for name, a in arrays.items()}
