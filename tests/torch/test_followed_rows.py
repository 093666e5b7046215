"""The rows of a model's inputs, iteration for iteration."""

from __future__ import annotations

import copy

import pytest
import torch

from pytest_dlperf.worker.batch_rows import BatchRows, RowsOfIteration
from pytest_dlperf.worker.failure import WorkerFailure
from pytest_dlperf.worker.frameworks.torch.followed_rows import follow_rows
from pytest_dlperf.worker.frameworks.torch.watch import first_call

pytestmark = pytest.mark.torch


def followed(model: torch.nn.Module, *, rows: int) -> RowsOfIteration:
    """Call ``model`` with so many rows once, and look at those of later calls."""
    seen, first = RowsOfIteration(), first_call()
    with first:
        model(torch.ones(rows, 2))
    assert follow_rows(first, BatchRows(rows), seen)
    return seen


@pytest.mark.parametrize("is_training", [True, False])
def test_a_smaller_batch_is_seen_also_where_a_teacher_is_called_first(is_training: bool):
    model = torch.nn.Linear(2, 1).train(is_training)
    seen = followed(model, rows=8)
    model(torch.ones(8, 2))
    seen.end()
    model(torch.ones(3, 2))
    with pytest.raises(WorkerFailure, match="the model's input has 3 rows, and a whole one 8"):
        seen.end()


def test_an_evaluation_between_and_parts_after_a_whole_batch_are_no_smaller_batches():
    model = torch.nn.Linear(2, 1)
    seen = followed(model, rows=8)
    model.eval()(torch.ones(3, 2))
    model.train()(torch.ones(8, 2))
    model(torch.ones(3, 2))
    seen.end()


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_a_model_that_takes_no_hook_and_inputs_without_a_shape_end_nothing():
    model = torch.nn.Linear(2, 1)
    scripted, first = torch.jit.script(model), first_call()
    with first:
        scripted(torch.ones(8, 2))
    assert not follow_rows(first, BatchRows(8), RowsOfIteration())
    seen = followed(model, rows=8)
    model(torch.nested.nested_tensor([torch.ones(3, 2)] * 8))
    seen.end()


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
def test_torchscript_compiles_a_model_that_is_followed_and_its_copies():
    """It compiles the hooks of a model as well, and ended the training."""
    model = torch.nn.Linear(2, 1)
    seen = followed(model, rows=8)
    for scripted in (model, copy.deepcopy(model), torch.nn.Sequential(model)):
        assert torch.jit.script(scripted)(torch.ones(3, 2)).shape == (3, 1)
    seen.end()
    model(torch.ones(3, 2))
    with pytest.raises(WorkerFailure, match="the model's input has 3 rows"):
        seen.end()
