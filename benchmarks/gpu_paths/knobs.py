"""ResNet-50 in both layouts and three precisions, in one process, in turns: images a second.

``python benchmarks/gpu_paths/knobs.py``. Turns, since clocks fall while a GPU gets warm.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import statistics
import time
from collections.abc import Callable, Sequence

import torch
from torch.nn import functional as F

from perf_tests.resnet50.recipe import MOMENTUM, SIZES, Size
from perf_tests.resnet50.torch_train import ResNet50, parameter_groups

LAYOUTS = {"channels last": torch.channels_last, "channels first": torch.contiguous_format}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the median rate of each layout and precision, and return 0."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--size", choices=sorted(SIZES), default="full")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10)
    options = parser.parse_args(arguments)
    on_gpu = torch.cuda.is_available()
    torch.backends.cudnn.benchmark = True
    size, batch = SIZES[options.size], 256 if options.size == "full" else 8
    precisions = ("fp32", "tf32", "amp") if on_gpu else ("fp32",)
    arms = {
        (precision, layout): _step(size, batch, precision, LAYOUTS[layout], on_gpu=on_gpu)
        for precision, layout in itertools.product(precisions, LAYOUTS)
    }
    rates: dict[tuple[str, str], list[float]] = {key: [] for key in arms}
    for turn in range(options.rounds + 1):
        for key, step in arms.items():
            step()
            _wait(on_gpu=on_gpu)
            begin_s = time.perf_counter()
            for _ in range(options.steps):
                step()
            _wait(on_gpu=on_gpu)
            if turn:  # The first warms up
                rates[key].append(batch * options.steps / (time.perf_counter() - begin_s))
    for (precision, layout), measured in rates.items():
        each = " ".join(f"{rate:.0f}" for rate in measured)
        print(f"{precision}, {layout}: {statistics.median(measured):.0f} images/s ({each})")
    return 0


def _wait(*, on_gpu: bool) -> None:
    if on_gpu:
        torch.cuda.synchronize()


def _step(
    size: Size, batch: int, precision: str, layout: torch.memory_format, *, on_gpu: bool
) -> Callable[[], None]:
    device = "cuda" if on_gpu else "cpu"
    model = ResNet50(size.width, size.classes, size.depths).to(device, memory_format=layout)
    # Each has its own wait for the GPU, or none: fused in all
    optimizer = torch.optim.SGD(parameter_groups(model), lr=1e-3, momentum=MOMENTUM, fused=True)
    scaler = torch.amp.GradScaler(device, enabled=precision == "amp")
    images = torch.randn(batch, 3, size.image, size.image, device=device).to(memory_format=layout)
    labels = torch.randint(size.classes, (batch,), device=device)

    def step() -> None:
        tf32 = precision == "tf32"
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
        half = torch.autocast(device, dtype=torch.float16)
        with half if precision == "amp" else contextlib.nullcontext():
            loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    return step


if __name__ == "__main__":
    raise SystemExit(main())
