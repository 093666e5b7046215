"""Images that are decoded beside the training, by a stand-in of nvImageCodec's module."""

from __future__ import annotations

import io
import itertools
import random
import sys
import threading
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("PIL.Image")

import numpy as np
import torch
from PIL import Image

from perf_tests import torch_decoder
from perf_tests.resnet50 import folders, torch_train
from perf_tests.resnet50.recipe import SIZES
from pytest_dlperf.worker.failure import WorkerFailure
from pytest_dlperf.worker.frameworks.torch.job import TorchJob

pytestmark = pytest.mark.torch

CPU = torch.device("cpu")


class StandIn:
    """As ``nvidia.nvimgcodec.Decoder`` 0.9: None for what it cannot decode."""

    def __init__(self, device_id: int, backends: list[Any]) -> None:
        assert device_id == torch_decoder.CPU_ONLY
        assert backends == ["cpu"]

    def decode(self, sources: list[bytes], *, params: Any, cuda_stream: int) -> list[Any]:
        assert params == {"apply_exif_orientation": False}
        assert cuda_stream == 0
        return [self._one(source) for source in sources]

    def _one(self, source: bytes) -> Any:
        try:
            pixels = np.asarray(Image.open(io.BytesIO(source)))
        except OSError:
            return None
        return pixels if pixels.ndim == 3 else pixels[:, :, np.newaxis]


@pytest.fixture
def codec(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("nvidia.nvimgcodec")
    module.__dict__.update(
        __version__="0.9.0",
        Decoder=StandIn,
        Backend=lambda kind: kind,
        BackendKind=SimpleNamespace(CPU_ONLY="cpu"),
        DecodeParams=dict,
    )
    monkeypatch.setitem(sys.modules, "nvidia", ModuleType("nvidia"))
    monkeypatch.setitem(sys.modules, "nvidia.nvimgcodec", module)


def picture(path: Path, *, grey: bool = False) -> Path:
    """A smooth image: what a codec loses is little."""
    y, x = np.mgrid[0:90, 0:120]
    planes = [x * 2, y * 2, x + y] if not grey else [x + y]
    pixels = np.stack(planes, -1).astype(np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels[..., 0] if grey else pixels).save(path, quality=95)
    return path


def job(data: Path | None, batch: int = 4, **options: Any) -> TorchJob:
    return TorchJob(
        rank=0, local_rank=0, world_size=1, device=CPU, precision="fp32", dtype=torch.float32,
        batch_size_per_device=batch, size="tiny", seed=1, data=None if data is None else str(data),
        options=options,
    )  # fmt: skip


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for label in range(2):
        for number in range(5):
            picture(tmp_path / f"train/n{label}/{number}.jpg", grey=number == 3)
    return tmp_path


@pytest.mark.usefixtures("codec")
def test_batches_are_images_as_pillow_would_have_made_them(data: Path):
    image = picture(data / "one.jpg")
    decoder = torch_decoder.Decoder(CPU)
    [pixels] = decoder([image.read_bytes()], ["one.jpg"])
    for number in range(10):
        found = torch_decoder.cropped([pixels], [str(number)], 32, folders.random_box)
        generator = random.Random(str(number))
        box = folders.random_box(120, 90, generator)
        with Image.open(image) as opened:
            wanted = np.asarray(
                opened.resize((32, 32), Image.Resampling.BILINEAR, box), np.float32
            )
        if generator.random() < 0.5:
            wanted = wanted[:, ::-1]
        assert np.abs(found[0].permute(1, 2, 0).numpy() - wanted).max() <= 1.5


@pytest.mark.usefixtures("codec")
def test_a_case_trains_on_what_it_decoded(data: Path):
    made = job(data, decoder="nvimgcodec")
    batches = torch_train.feed(made, SIZES["tiny"])
    seen = [next(batches) for _ in range(5)]
    side = SIZES["tiny"].image
    for images, labels in seen:
        assert images.shape == (4, 3, side, side)
        assert images.dtype == torch.float32
        assert images.is_contiguous(memory_format=torch.channels_last)
        assert -3 < images.min() < images.max() < 3
        assert set(labels.tolist()) <= {0, 1}
    assert not torch.equal(seen[0][0], seen[2][0]), "each epoch has crops of its own"
    made.feed.take_wait()
    record = made.feed.record()
    assert (record["kind"], record["decoder"]) == ("real", "nvimgcodec 0.9.0")
    made.feed.close()


@pytest.mark.usefixtures("codec")
def test_a_decoder_that_waits_ends_with_the_training(data: Path):
    """It has more batches of this epoch to decode than it may decode ahead."""
    before = set(threading.enumerate())
    made = job(data, batch=1, decoder="nvimgcodec")
    next(torch_train.feed(made, SIZES["tiny"]))
    [decoder] = [
        thread
        for thread in threading.enumerate()
        if thread.name == "image decoder" and thread not in before
    ]
    made.feed.close()
    assert not decoder.is_alive()


@pytest.mark.usefixtures("codec")
def test_a_broken_image_is_named(data: Path):
    broken = data / "train/n1/4.jpg"
    broken.write_bytes(b"no image")
    batches = torch_train.feed(job(data, decoder="nvimgcodec"), SIZES["tiny"])
    with pytest.raises(WorkerFailure, match=r"4\.jpg cannot be read as an image by nvImageCodec"):
        list(itertools.islice(batches, 3))


def test_without_the_library_the_case_says_what_to_install(
    data: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "nvidia.nvimgcodec", None)
    with pytest.raises(WorkerFailure, match="pip install nvidia-nvimgcodec-cu12") as caught:
        next(torch_train.feed(job(data, decoder="nvimgcodec"), SIZES["tiny"]))
    assert caught.value.code == "data-needs-nvimgcodec"


@pytest.mark.parametrize(
    ("options", "device", "expected"),
    [
        ({"tuned": True}, "cuda", True),
        ({"tuned": True}, "cpu", False),
        ({}, "cuda", False),
    ],
)
def test_tuned_cases_decode_on_the_gpu_and_the_reports_recipes_as_before(
    options: dict[str, Any], device: str, expected: bool
):
    asked = SimpleNamespace(options=options, device=torch.device(device))
    assert torch_train.decodes_on_gpu(asked) is expected  # type: ignore[arg-type]
