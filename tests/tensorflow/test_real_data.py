"""ResNet-50 trains on TFRecords; what is wrong with a record is said, and where it is."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace

import pytest
import tensorflow as tf

from perf_tests.resnet50 import tf_data
from tests.helpers.real_data import check_read, train

pytestmark = pytest.mark.tensorflow


def write_records(folder: Path, *, files: int, images: int, label: int = 3) -> None:
    folder.mkdir(parents=True)
    for number in range(files):
        path = folder / f"train-{number:05d}-of-{files:05d}"
        with tf.io.TFRecordWriter(str(path)) as writer:
            for image in range(images):
                writer.write(record(jpeg(number * 100 + image), label))


def jpeg(seed: int) -> bytes:
    pixels = tf.io.decode_raw(random.Random(seed).randbytes(30 * 40 * 3), tf.uint8)
    encoded: bytes = tf.io.encode_jpeg(tf.reshape(pixels, (30, 40, 3))).numpy()
    return encoded


def record(encoded: bytes, label: int) -> bytes:
    features = {
        "image/encoded": tf.train.Feature(bytes_list=tf.train.BytesList(value=[encoded])),
        "image/class/label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
    }
    example = tf.train.Example(features=tf.train.Features(feature=features))
    serialised: bytes = example.SerializeToString()
    return serialised


# Two ranks more; what a rank reads is looked at below without a training.
@pytest.mark.nightly
def test_resnet50_trains_on_tfrecords(tmp_path):
    write_records(tmp_path / "data/resnet50", files=2, images=40)
    outcomes = train(tmp_path, tmp_path / "data", "tensorflow")
    assert len(outcomes) == 2
    for outcome in outcomes:
        check_read(outcome)


@pytest.mark.parametrize("files", [1, 2, 3])
@pytest.mark.parametrize("data_workers", [0, 4])
def test_every_record_is_one_ranks(tmp_path, files, data_workers):
    write_records(tmp_path / "resnet50", files=files, images=6)
    found = tf_data.find_files(str(tmp_path))
    ranks = [
        [int(number) for number, _ in tf_data.records(job, found).as_numpy_iterator()]
        for job in (
            SimpleNamespace(rank=rank, world_size=2, data_workers=data_workers)
            for rank in range(2)
        )
    ]
    every = {file * 2**32 + image for file in range(files) for image in range(6)}
    assert sorted([*ranks[0], *ranks[1]]) == sorted(every)
    assert len(ranks[0]) == (12 if files == 3 else 3 * files)


def damage(path: Path) -> str:
    path.write_bytes(path.read_bytes()[:-5])
    return "is damaged after record 39"


def breaks_an_image(path: Path) -> str:
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(record(jpeg(1), 1))
        writer.write(record(jpeg(2)[:300], 1))
    return "record 2 cannot be read"


def mislabels(path: Path) -> str:
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(record(jpeg(1), 0))
    return "record 1: label 0 is out of range, the model has the classes 1 to 10"


def empties(path: Path) -> str:
    path.write_bytes(b"")
    path.with_name("train-00000-of-00002").write_bytes(b"")
    return "--dlperf-data has no whole batch for this rank"


# A session for each: they differ in the folder that --dlperf-data names.
@pytest.mark.nightly
@pytest.mark.parametrize("fault", [damage, breaks_an_image, mislabels, empties])
def test_faulty_records_are_named(tmp_path, fault):
    folder = tmp_path / "data/resnet50"
    write_records(folder, files=2, images=40)
    said = fault(folder / "train-00001-of-00002")
    [outcome] = train(tmp_path, tmp_path / "data", "tensorflow", "--cpus=1")
    assert outcome["judgement"]["verdict"] == "error"
    assert said in outcome["judgement"]["reason"]
