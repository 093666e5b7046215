"""Lists and folders of real data: what is read, and what is said of what cannot be."""

from __future__ import annotations

import random

import pytest
from PIL import Image

from perf_tests.arcface import data as arcface
from perf_tests.resnet50 import data as resnet50
from perf_tests.tsm import data as tsm
from pytest_dlperf.worker.failure import WorkerFailure
from tests.helpers.data_sets import faces, imagenet, kinetics, picture


def test_frame_list_of_paddlevideo_and_of_the_authors(tmp_path):
    kinetics(tmp_path, clips=2)
    clips = tsm.read_list(tmp_path / "train_frames.list", 10)
    assert clips[1] == (tmp_path / "rawframes/some class/video1", 9, 1)
    (tmp_path / "train_frames.list").rename(tmp_path / "train_videofolder.txt")
    (tmp_path / "rawframes/some class").rename(tmp_path / "some class")
    samples = tsm.Clips(str(tmp_path), classes=10, segments=8, image=16, seed=1)
    pixels, label = samples[1]
    assert pixels.shape == (8, 3, 16, 16)
    assert (pixels.dtype, int(label), len(samples)) == ("float32", 1, 2)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "is empty; write one sample a line"),
        ("a 9 1\nb", "line 2 cannot be read: 'b'; write 'frames_folder number_of_frames label'"),
        ("a nine 1", "line 1 cannot be read"),
        ("a 0 1", "line 1: a has 0 frames"),
        ("a 9 10", "line 1: label 10 is out of range, the model has the classes 0 to 9"),
        ("a 9 -1", "line 1: label -1 is out of range"),
        ("a 9 1", "the frames of its first line, a, are not in"),
    ],
)
def test_frame_list_that_cannot_be_read(tmp_path, line, said):
    path = tmp_path / "train_frames.list"
    path.write_text(line, encoding="utf-8")
    with pytest.raises(WorkerFailure) as caught:
        tsm.read_list(path, 10)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("frames", [1, 7, 8, 9, 300])
def test_one_frame_of_each_segment(frames):
    drawn = [tsm.segment_indices(frames, 8, random.Random(seed)) for seed in range(50)]
    length = frames // 8
    for numbers in drawn:
        for part, number in enumerate(numbers):
            assert (part * length < number <= (part + 1) * length) if length else number == 1
    assert (len({tuple(numbers) for numbers in drawn}) > 1) == (length > 1)


def test_missing_frame_is_named(tmp_path):
    kinetics(tmp_path, clips=1, frames=8)
    frame = tmp_path / "rawframes/some class/video0/img_00004.jpg"
    frame.unlink()
    samples = tsm.Clips(str(tmp_path), classes=10, segments=8, image=16, seed=1)
    with pytest.raises(WorkerFailure, match=r"img_00004.jpg cannot be read as an image"):
        samples[0]


def test_imagenet_folders(tmp_path):
    imagenet(tmp_path / "resnet50", classes=3, images=2)
    (tmp_path / "resnet50/train/notes.txt").touch()
    samples = resnet50.Images(str(tmp_path), classes=3, image=16, seed=1)
    assert [int(samples[i][1]) for i in range(len(samples))] == [0, 0, 1, 1, 2, 2]
    assert samples[0][0].shape == (3, 16, 16)
    # The same image again is another crop.
    assert (samples[0][0] != samples[0][0]).any()
    with pytest.raises(WorkerFailure, match="has 3 folders, so label 2 is out of range"):
        resnet50.Images(str(tmp_path), classes=2, image=16, seed=1)


def test_imagenet_without_images(tmp_path):
    (tmp_path / "train/n1").mkdir(parents=True)
    with pytest.raises(WorkerFailure, match="has no image in its 1 folders"):
        resnet50.Images(str(tmp_path), classes=2, image=16, seed=1)


@pytest.mark.parametrize("size", [(1, 1), (500, 3), (40, 30)])
def test_crops_are_within_the_image(size):
    for seed in range(200):
        left, upper, right, lower = resnet50.random_box(*size, random.Random(seed))
        assert 0 <= left < right <= size[0]
        assert 0 <= upper < lower <= size[1]


def test_faces_by_tab_or_space_and_grey(tmp_path):
    faces(tmp_path, images=2)
    Image.new("L", (112, 112), 255).save(tmp_path / "white face.png")
    with (tmp_path / "label.txt").open("a", encoding="utf-8") as file:
        file.write("white face.png 5\n")
    samples = arcface.Faces(str(tmp_path), classes=10, image=112, seed=1)
    pixels, label = samples[2]
    assert (pixels == 1).all()
    assert (int(label), pixels.shape) == (5, (3, 112, 112))


@pytest.mark.parametrize(
    ("made", "said"),
    [(b"", "UnidentifiedImageError"), (b"\x89PNG\r\n\x1a\n123", "replace it, or take it out")],
)
def test_broken_image_is_named(tmp_path, made, said):
    faces(tmp_path, images=1)
    broken = tmp_path / "images/00000000.jpg"
    broken.write_bytes(made)
    with pytest.raises(WorkerFailure) as caught:
        arcface.Faces(str(tmp_path), classes=10, image=32, seed=1)[0]
    assert f"{broken} cannot be read as an image" in str(caught.value)
    assert said in str(caught.value)


def test_folder_of_another_format(tmp_path):
    picture(tmp_path / "holiday.png", 8, 8, 1)
    with pytest.raises(WorkerFailure, match=r"has no list label.txt or .*, neither itself nor in"):
        arcface.Faces(str(tmp_path), classes=10, image=32, seed=1)
    with pytest.raises(WorkerFailure, match="has no folder train/"):
        resnet50.Images(str(tmp_path), classes=10, image=32, seed=1)
    with pytest.raises(WorkerFailure, match="is not a directory here"):
        tsm.Clips(str(tmp_path / "none"), classes=10, segments=8, image=32, seed=1)
