"""The rows of a batch, by its shapes: as loaders and collators of many kinds build it."""

from __future__ import annotations

import collections
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from pytest_dlperf.worker.batch_rows import BatchRows, RowsOfIteration, Shaped
from pytest_dlperf.worker.failure import WorkerFailure


@dataclass
class Batch:
    inputs: Any
    labels: Any


class Packed(NamedTuple):
    data: Any
    sizes: Any


class Ragged:
    """An array whose shape raises, as that of a nested tensor does."""

    @property
    def shape(self) -> list[int]:
        raise RuntimeError("no shape")


class Walked(dict[str, Any]):
    """A batch that counts how often it is looked into."""

    looks = 0

    def __getitem__(self, key: str) -> Any:
        self.looks += 1
        return super().__getitem__(key)


def array(*shape: int) -> Shaped:
    return Shaped(shape)


def rows(whole: int, *batches: Any, dimension: int = 0) -> list[int | None]:
    counted = BatchRows(whole, dimension)
    return [counted.rows_of(batch) for batch in batches]


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


@pytest.mark.parametrize("whole", [2, 3, 4])
def test_what_is_in_a_sample_is_no_row(whole: int):
    def batch(*boxes: int) -> Any:
        images = [array(3, 20 + n, 30) for n in boxes]
        return images, [{"boxes": array(n, 4), "labels": array(n)} for n in boxes]

    # As many boxes in the first image as images in the batch, and as many as channels
    first = batch(whole, *[whole + 1] * (whole - 1))
    later = batch(1, *[whole] * (whole - 1))
    smaller = batch(*[whole] * (whole - 1))
    assert rows(whole, first, later, smaller) == [whole, whole, whole - 1]


@pytest.mark.parametrize(
    ("batches", "found"),
    [
        # As many samples as a sample has parts: nobody knows which is which
        ([[(array(3, 9), array())] * 2, [(array(3, 9), array())]], [2, None]),
        # The same of parts and rows, in a batch of two
        ([({"a": array(2)}, {"b": array(2)}), ({"a": array(1)}, {"b": array(1)})], [2, None]),
        # Named parts are no samples
        ([{"x": Packed(array(11), array(5))}], [None]),
        # Samples of two words, which may have one
        ([{"ids": [[1, 2], [3]]}, {"ids": [[1], [3]]}, {"ids": [[1, 2]]}], [2, 2, 1]),
    ],
)
def test_samples_of_as_many_parts_as_the_batch_has_rows(batches: list[Any], found: list[Any]):
    assert rows(2, *batches) == found


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
        # A dimension without one size
        ([array(8, 3), array(-1, 3)], [8, None]),
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
    seen.is_said = True
    seen.end()
    seen.expect(3, 8, "a batch")
    seen.expect(3, 8, "what the batch went into")
    with pytest.raises(WorkerFailure, match="a batch has 3 rows, and a whole one 8") as raised:
        seen.end()
    assert raised.value.code == "batch-mismatch"
    seen.end()


def test_batches_that_show_no_rows_are_soon_looked_into_no_longer():
    """A packed batch of nested lists was walked in each wait for data."""
    counted, packed = BatchRows(8), Walked(ids=[[1, 2, 3]])
    assert {counted.rows_of(packed) for _ in range(50)} == {None}
    assert 1 < packed.looks < 10
