"""ImageNet as TFRecords (``train-00000-of-01024``), read by tf.data."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from pytest_dlperf.worker.failure import WorkerFailure

from ..data_folder import candidates, other_format

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_dlperf.worker.frameworks.tensorflow.job import TensorflowJob

FILES = "train-*-of-*"
KEYS = {
    "image/encoded": tf.io.FixedLenFeature([], tf.string),
    #: Counted from 1.
    "image/class/label": tf.io.FixedLenFeature([], tf.int64),
}
MEAN = (123.68, 116.78, 103.94)
SHUFFLED = 1024
#: How long a broken record is looked for, after one was read.
SEARCH_S = 60.0


def find_files(data: str) -> list[Path]:
    """Return the files of records, in order."""
    for folder in candidates(data, "resnet50"):
        if files := sorted(folder.glob(FILES)):
            return files
    raise other_format(data, "resnet50", f"TFRecords {FILES}")


def records(job: TensorflowJob, files: list[Path]) -> Any:
    """Return this rank's records with a number for each: (int64, bytes).

    Whole files where each rank has one, as reading others' would be for nothing; else every
    so-many-th record.
    """
    numbered = list(enumerate(map(str, files)))
    by_file = len(files) >= job.world_size
    mine = numbered[job.rank :: job.world_size] if by_file else numbered
    numbers, paths = zip(*mine, strict=True)

    def open_file(number: Any, path: Any) -> Any:
        file = tf.data.TFRecordDataset(path)
        return file.enumerate(tf.cast(number, tf.int64) * 2**32)

    found = tf.data.Dataset.from_tensor_slices((list(numbers), list(paths))).interleave(
        open_file, cycle_length=min(len(mine), max(1, job.data_workers))
    )
    return found if by_file else found.shard(job.world_size, job.rank)


class Images:
    """Batches of (batch, image, image, 3) float32 and (batch,) int32 classes, an epoch a pass."""

    def __init__(self, job: TensorflowJob, *, classes: int, image: int) -> None:
        self._files = find_files(str(job.data))
        self._classes = classes
        self._image = image
        found = records(job, self._files)
        self._note(job, found)
        self._batches = (
            found.map(lambda _number, record: record)
            .shuffle(SHUFFLED, seed=job.seed)
            .map(self._sample, num_parallel_calls=job.data_workers or None)
            .batch(job.batch_size_per_device, drop_remainder=True)
        )
        if job.data_workers:
            self._batches = self._batches.prefetch(2)

    def __iter__(self) -> Iterator[Any]:
        try:
            yield from self._batches
        except tf.errors.OpError as error:
            raise self._explained(error) from None

    def _note(self, job: TensorflowJob, found: Any) -> None:
        try:
            first = [int(n) for n, _ in found.take(job.batch_size_per_device).as_numpy_iterator()]
        except tf.errors.OpError as error:
            raise self._explained(error) from None
        job.feed.note(first_samples=first)

    def _sample(self, record: Any) -> tuple[Any, Any]:
        """Return a crop at random, mirrored or not, less the mean; and the class."""
        parsed = tf.io.parse_single_example(record, KEYS)
        encoded, label = parsed["image/encoded"], parsed["image/class/label"] - 1
        tf.debugging.assert_equal((label >= 0) & (label < self._classes), True)
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            tf.io.extract_jpeg_shape(encoded),
            tf.zeros((1, 0, 4)),
            area_range=(0.08, 1.0),
            aspect_ratio_range=(0.75, 4 / 3),
            use_image_if_no_bounding_boxes=True,
        )
        window = tf.concat([begin[:2], size[:2]], 0)
        pixels = tf.io.decode_and_crop_jpeg(encoded, window, channels=3)
        pixels = tf.image.resize(pixels, (self._image, self._image))
        pixels = tf.image.random_flip_left_right(pixels) - tf.constant(MEAN)
        return pixels, tf.cast(label, tf.int32)

    def _explained(self, error: Exception) -> WorkerFailure:
        """Return the failure that names the record at fault, which TensorFlow's error does not."""
        until_s = time.monotonic() + SEARCH_S
        for path in self._files:
            if (what := self._fault(path, until_s)) is not None:
                return WorkerFailure("data-record", what)
        return WorkerFailure(
            "data-record",
            f"a record in {self._files[0].parent} cannot be read: {str(error).splitlines()[0]}",
        )

    def _fault(self, path: Path, until_s: float) -> str | None:
        """Return what is wrong with the first faulty record of a file; None if nothing is."""
        number = 0
        try:
            for number, record in enumerate(tf.data.TFRecordDataset(str(path)), start=1):
                if time.monotonic() > until_s:
                    return None
                parsed = tf.io.parse_single_example(record, KEYS)
                tf.io.decode_jpeg(parsed["image/encoded"], channels=3)
                label = int(parsed["image/class/label"])
                if not 1 <= label <= self._classes:
                    return (
                        f"{path}, record {number}: label {label} is out of range, the model has "
                        f"the classes 1 to {self._classes} (0 is the background); correct it, or "
                        "take a size (--dlperf-size) with as many classes"
                    )
        except tf.errors.DataLossError:
            return f"{path} is damaged after record {number}; write it again"
        except tf.errors.OpError as error:
            why = str(error).splitlines()[0]
            return f"{path}, record {number} cannot be read: {why}; write the file again"
        return None
