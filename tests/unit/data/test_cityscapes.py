"""Cityscapes: labels, crops, and the archive that is not unpacked."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from PIL import Image

from perf_tests import cityscapes_archive as archive
from perf_tests.cityscapes import IGNORED, Streets, class_of_label, find_streets
from pytest_dlperf.worker.failure import WorkerFailure
from tests.helpers.data_sets import cityscapes, picture


def read(folder) -> Streets:
    return Streets(str(folder), "deeplabv3p", height=32, breadth=64, seed=1)


def test_ids_become_the_nineteen_classes():
    of_ids, of_classes = class_of_label(trained=False), class_of_label(trained=True)
    assert sorted(set(of_ids)) == [-1, *range(19), IGNORED]
    assert (of_ids[7], of_ids[26], of_ids[33], of_ids[0]) == (0, 13, 18, IGNORED)
    assert list(of_classes[:20]) == [*range(19), -1]
    assert of_classes[IGNORED] == of_ids[IGNORED] == IGNORED


def test_crops_of_both_kinds_of_labels(tmp_path):
    cityscapes(tmp_path / "deeplabv3p", streets=2)
    samples = read(tmp_path)
    for index, label in ((0, 7), (1, 0)):
        seen = set()
        for _ in range(20):
            pixels, classes = samples[index]
            assert (pixels.shape, classes.shape) == ((3, 32, 64), (32, 64))
            assert (pixels.dtype, classes.dtype) == ("float32", "int64")
            seen |= set(np.unique(classes).tolist())
        assert seen == {label, IGNORED}


def test_label_out_of_range(tmp_path):
    cityscapes(tmp_path, streets=1)
    [label] = tmp_path.glob("gtFine/train/*/*.png")
    Image.new("L", (96, 48), 34).save(label)
    with pytest.raises(WorkerFailure, match=r"labelIds.png: label 34 is out of range"):
        read(tmp_path)[0]


def test_palette_is_left_aside(tmp_path):
    cityscapes(tmp_path, streets=1)
    [label] = tmp_path.glob("gtFine/train/*/*.png")
    image = Image.new("P", (96, 48), 8)
    image.putpalette([200, 10, 10] * 256)
    image.save(label)
    seen = set(np.unique(read(tmp_path)[0][1]).tolist())
    assert seen <= {1, IGNORED}


def test_labels_that_do_not_fit(tmp_path):
    cityscapes(tmp_path, streets=1)
    [label] = tmp_path.glob("gtFine/train/*/*.png")
    Image.new("L", (9, 9), 7).save(label)
    with pytest.raises(WorkerFailure, match="has 9 x 9 pixels, its image 96 x 48"):
        read(tmp_path)[0]
    picture(label, 96, 48, 1)
    with pytest.raises(WorkerFailure, match="mode RGB, labels are one byte each"):
        read(tmp_path)[0]
    label.unlink()
    with pytest.raises(WorkerFailure, match="has no labels"):
        read(tmp_path)


def test_archive_is_checked_before_it_is_unpacked(tmp_path, monkeypatch):
    packed = tmp_path / "cityscapes.tar"
    packed.write_bytes(b"tar")
    found = hashlib.md5(b"tar").hexdigest()
    assert archive.md5_of(packed) == found
    with pytest.raises(WorkerFailure) as caught:
        find_streets(str(tmp_path), "deeplabv3p")
    assert f"{packed} has the MD5 sum {found}" in str(caught.value)
    assert "37724b19b6e5d41f9f147936d60b3c29" in str(caught.value)
    monkeypatch.setitem(archive.MD5, "cityscapes.tar", found)
    with pytest.raises(
        WorkerFailure, match="is not unpacked and has the report's MD5 sum; unpack"
    ):
        find_streets(str(tmp_path), "deeplabv3p")


def test_archive_of_cityscapes_own_site_has_no_sum_to_check(tmp_path):
    (tmp_path / "leftImg8bit_trainvaltest.zip").write_bytes(b"zip")
    with pytest.raises(WorkerFailure, match=r"trainvaltest.zip is not unpacked; unpack it there"):
        find_streets(str(tmp_path), "deeplabv3p")
    cityscapes(tmp_path / "cityscapes", streets=1)
    (tmp_path / "leftImg8bit_trainvaltest.zip").unlink()
    assert len(find_streets(str(tmp_path), "deeplabv3p")) == 1
