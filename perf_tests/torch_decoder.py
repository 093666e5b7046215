"""Decodes JPEG images on the device that trains, by NVIDIA's nvImageCodec, for PyTorch.

Workers read files; a thread beside the training decodes them, crops them and scales them, on a
stream of its own. https://docs.nvidia.com/cuda/nvimagecodec/ is the library, DALI's decoder.
"""

from __future__ import annotations

import importlib
import queue
import random
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn import functional as F

from pytest_dlperf.worker.failure import WorkerFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from pytest_dlperf.worker.frameworks.torch.job import TorchJob

#: What ``Decoder`` takes as the device of a decoder without a GPU.
CPU_ONLY = -99999
#: Batches that are decoded ahead of the training.
_AHEAD = 2

Box = tuple[int, int, int, int]


class EncodedFiles:
    """Images as they are in their files: bytes, the number that their crop is drawn by, label."""

    def __init__(self, files: Sequence[tuple[Path, int]], seed: int | str) -> None:
        self._files, self._seed, self._reads = files, seed, 0

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> tuple[bytes, str, str, np.int64]:
        self._reads += 1
        path, label = self._files[index]
        return path.read_bytes(), str(path), f"{self._seed} {index} {self._reads}", np.int64(label)


class Decoder:
    """nvImageCodec on one device."""

    def __init__(self, device: torch.device) -> None:
        try:
            self._codec: Any = importlib.import_module("nvidia.nvimgcodec")
        except ImportError as error:
            raise WorkerFailure(
                "data-needs-nvimgcodec",
                f"this case decodes images by nvImageCodec, which cannot be imported ({error}); "
                "pip install nvidia-nvimgcodec-cu12[all] (-cu13 for CUDA 13), or choose "
                'Pillow in the marker: options={"decoder": "pillow"}',
            ) from error
        codec, self._device = self._codec, device
        self._parameters = codec.DecodeParams(apply_exif_orientation=False)
        if device.type == "cuda":
            self._decoder = codec.Decoder(device_id=device.index)
        else:
            backends = [codec.Backend(codec.BackendKind.CPU_ONLY)]
            self._decoder = codec.Decoder(device_id=CPU_ONLY, backends=backends)

    @property
    def version(self) -> str:
        """Return the library and its version."""
        return f"nvimgcodec {getattr(self._codec, '__version__', 'unknown')}"

    def __call__(self, encoded: Sequence[bytes], names: Sequence[str]) -> list[torch.Tensor]:
        """Return the images of files, (height, width, 3) of bytes; raise for one that is broken.

        They are decoded on the current stream.
        """
        on_gpu = self._device.type == "cuda"
        stream = torch.cuda.current_stream(self._device).cuda_stream if on_gpu else 0
        images = self._decoder.decode(list(encoded), params=self._parameters, cuda_stream=stream)
        return [self._tensor(*pair) for pair in zip(images, names, strict=True)]

    def _tensor(self, image: Any, name: str) -> torch.Tensor:
        if image is None:
            raise WorkerFailure(
                "data-image",
                f"{name} cannot be read as an image by nvImageCodec; replace it, or take it out "
                "of the data set",
            )
        if self._device.type == "cuda":
            pixels = torch.as_tensor(image, device=self._device)
        else:
            pixels = torch.from_numpy(np.array(image))
        if pixels.shape[-1] == 1:
            pixels = pixels.expand(-1, -1, 3)
        if pixels.ndim != 3 or pixels.shape[-1] != 3:
            raise WorkerFailure(
                "data-image",
                f"{name} has {pixels.shape[-1]} channels after nvImageCodec decoded it, not 1 or "
                "3; convert it to RGB",
            )
        return pixels


def cropped(
    images: Sequence[torch.Tensor],
    seeds: Sequence[str],
    side: int,
    random_box: Callable[[int, int, random.Random], Box],
) -> torch.Tensor:
    """Return crops at random, scaled to ``side`` and half of them mirrored: float32 of 0 to 255.

    As Pillow's bilinear filter, which averages where it makes an image smaller.
    """
    batch = torch.empty(len(images), 3, side, side, device=images[0].device)
    for index, (image, seed) in enumerate(zip(images, seeds, strict=True)):
        generator = random.Random(seed)
        height, width = image.shape[:2]
        left, upper, right, lower = random_box(width, height, generator)
        crop = image[upper:lower, left:right].permute(2, 0, 1).unsqueeze(0).float()
        scaled = F.interpolate(crop, (side, side), mode="bilinear", antialias=True)
        batch[index] = scaled[0].flip(-1) if generator.random() < 0.5 else scaled[0]
    return batch


class DecodedBatches:
    """Batches of a loader of ``EncodedFiles``, decoded by a thread beside the training."""

    def __init__(
        self, loader: Any, decode: Callable[[Any], tuple[torch.Tensor, ...]], device: torch.device
    ) -> None:
        self._loader, self._decode, self._device = loader, decode, device
        #: The feed tells it of each epoch.
        self.sampler = getattr(loader, "sampler", None)

    def __iter__(self) -> Iterator[tuple[torch.Tensor, ...]]:
        ready: queue.Queue[Any] = queue.Queue(_AHEAD)
        over = threading.Event()
        thread = threading.Thread(
            target=self._fill, args=(ready, over), name="image decoder", daemon=True
        )
        thread.start()
        try:
            while True:
                found = ready.get()
                if found is None:
                    return
                if isinstance(found, BaseException):
                    raise found
                tensors, event = found
                if event is not None:
                    stream = torch.cuda.current_stream(self._device)
                    stream.wait_event(event)
                    for tensor in tensors:
                        tensor.record_stream(stream)
                yield tensors
        finally:
            over.set()
            thread.join()

    def _fill(self, ready: queue.Queue[Any], over: threading.Event) -> None:
        on_gpu = self._device.type == "cuda"
        stream = torch.cuda.Stream(self._device) if on_gpu else None
        found: Any = None
        try:
            for batch in self._loader:
                # Of nothing where there is no stream
                with torch.cuda.stream(stream):
                    tensors = self._decode(batch)
                    event = stream.record_event() if stream is not None else None
                if not _put(ready, (tensors, event), over):
                    return
        except BaseException as error:  # noqa: BLE001  # the training raises it
            found = error
        _put(ready, found, over)


def _put(ready: queue.Queue[Any], item: Any, over: threading.Event) -> bool:
    """Return whether there was room before the training was over."""
    while not over.is_set():
        try:
            ready.put(item, timeout=0.1)
        except queue.Full:
            continue
        return True
    return False


def decoded_batches(
    job: TorchJob,
    files: Sequence[tuple[Path, int]],
    *,
    side: int,
    random_box: Callable[[int, int, random.Random], Box],
    mean: Iterable[float],
    std: Iterable[float],
    **layout: Any,
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Return this rank's batches without end, as ``torch_batches.batches_of`` does.

    ``mean`` and ``std`` are of the channels, in shares of 255.
    """
    decoder = Decoder(job.device)
    job.feed.note(decoder=decoder.version)
    of_255 = {"device": job.device, "dtype": torch.float32}
    offset = 255 * torch.tensor(tuple(mean), **of_255).view(1, 3, 1, 1)
    scale = 1 / (255 * torch.tensor(tuple(std), **of_255).view(1, 3, 1, 1))

    def decode(batch: Any) -> tuple[torch.Tensor, ...]:
        encoded, names, seeds, labels = batch
        pixels = cropped(decoder(encoded, names), seeds, side, random_box)
        images = ((pixels - offset) * scale).to(job.dtype, **layout)
        return images, labels.to(job.device, non_blocking=True)

    loader = job.loader(EncodedFiles(files, f"{job.seed} {job.rank}"))
    batches: Iterator[tuple[torch.Tensor, torch.Tensor]] = job.batches(
        DecodedBatches(loader, decode, job.device)
    )
    return batches
