"""The rows of a batch, by its shapes: as loaders and collators of many kinds build it."""

from __future__ import annotations

import collections
from dataclasses import dataclass
from typing import Any

import pytest

from pytest_dlperf.worker.batch_rows import BatchRows, RowsOfIteration, Shaped
from pytest_dlperf.worker.failure import WorkerFailure


@dataclass
class Batch:
    inputs: Any
    labels: Any


class Ragged:
    """An array whose shape raises, as that of a nested tensor does."""

    @property
    def shape(self) -> list[int]:
        raise RuntimeError("no shape")


def array(*shape: int) -> Shaped:
    return Shaped(shape)


def rows(whole: int, *batches: Any, dimension: int = 0) -> list[int | None]:
    counted = BatchRows(whole, dimension)
    return [counted.of(batch) for batch in batches]


@pytest.mark.parametrize(
    "built",
    [
        lambda n: array(n, 3),
        lambda n: (array(n, 3), array(n)),
        lambda n: [array(n, 3), array(n)],
        lambda n: {"input_ids": array(n, 40 + n), "labels": array(n)},
        lambda n: collections.UserDict(input_ids=array(n, 3)),
        lambda n: {"a": (array(n, 3), array(n)), "b": {"c": array(n)}},
        lambda n: Batch(array(n, 3), array(n)),
        # Images of other sizes, and their boxes
        lambda n: ([array(3, 20 + i, 30) for i in range(n)], [{"boxes": i} for i in range(n)]),
        lambda n: [{"text": "words"} for _ in range(n)],
        lambda n: {"text": ["words"] * n},
        # What is as long as the batch by chance, in the first
        lambda n: {"input_ids": array(n, 8), "images": array(8 if n == 8 else 11, 3)},
        lambda n: {"input_ids": array(n, 8), "mean": array()},
    ],
)  # fmt: skip
def test_rows_of_whole_batches_and_of_smaller_ones(built: Any):
    assert rows(8, built(8), built(8), built(3), built(1)) == [8, 8, 3, 1]


def test_rows_in_another_dimension():
    assert rows(8, array(50, 8), array(8, 3), dimension=1) == [8, 3]


@pytest.mark.parametrize(
    ("batches", "found"),
    [
        # Packed into one row
        ([(array(1, 300), array(1, 300))] * 2, [None, None]),
        # The first batch is not whole, so that nothing shows where the rows are
        ([array(5, 3), array(8, 3), array(5, 3)], [None, 8, 5]),
        # Two of as many arrays are no rows
        ([(array(1, 300), array(1, 300))], [None]),
        # Larger than what the case says
        ([array(8, 3), array(16, 3)], [8, None]),
        # Its arrays disagree
        ([(array(8, 3), array(8)), (array(4, 3), array(2))], [8, None]),
        # Built in another way
        ([{"a": array(8)}, {"b": array(8)}, [array(8)]], [8, None, None]),
        ([Ragged(), {"a": Ragged()}], [None, None]),
        ([None, 3, "words", object()], [None] * 4),
    ],
)
def test_rows_that_do_not_show_are_not_guessed(batches: list[Any], found: list[int | None]):
    assert rows(8, *batches) == found


def test_a_pair_of_packed_arrays_is_no_batch_of_two():
    assert rows(2, (array(1, 300), array(1, 300)), {"a": array(1, 2)}) == [None, None]


def test_an_iteration_of_fewer_rows_is_an_error_unless_it_says_its_work():
    seen = RowsOfIteration()
    seen.expect(8, 8, "a batch")
    seen.end()
    seen.expect(None, 8, "a batch")
    seen.end()
    seen.expect(3, 8, "a batch")
    seen.said = True
    seen.end()
    seen.expect(3, 8, "a batch")
    seen.expect(3, 8, "what the batch went into")
    with pytest.raises(WorkerFailure, match="a batch has 3 rows, and a whole one 8") as raised:
        seen.end()
    assert raised.value.code == "batch-mismatch"
    seen.end()
