"""What a log and its path say of the run: world size, batch, precision, how it ended."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

#: A pattern is tried only in blocks that hold its anchor. All devices of the run.
_WORLD: Final = (
    (b"PADDLE_TRAINERS_NUM", re.compile(rb"PADDLE_TRAINERS_NUM\s{1,64}(\d{1,6})\b")),
    (b"distributed_world_size=", re.compile(rb"distributed_world_size=(\d{1,6})\b")),
    (b"world_size : ", re.compile(rb"\bworld_size : (\d{1,6})\b")),
    (b"WORLD_SIZE: ", re.compile(rb"\bWORLD_SIZE: (\d{1,6})\b")),
    (b"using world size: ", re.compile(rb"using world size: (\d{1,6})\b")),
    (b"GPUs used: ", re.compile(rb"GPUs used: (\d{1,6})\b")),
    (b"GPU number: ", re.compile(rb"\bGPU number: (\d{1,6})\b")),
    # Old versions of mmcv's programs say ``range(0, 1)`` however many there are.
    (b"gpu_ids = range(0, ", re.compile(rb"\bgpu_ids = range\(0, ([2-9]|\d{2,6})\)")),
    (
        b"-D device mesh with [",
        re.compile(rb"\d-D device mesh with \[[^]\n]{1,99}\], \[(\d{1,6}(?:, \d{1,6}){0,7})\]"),
    ),
    (
        b"registered. Starting with ",
        re.compile(rb"processes registered\. Starting with (\d{1,6}) processes"),
    ),
    (b"world_size ...", re.compile(rb"\] {2,4}world_size \.{3,40} (\d{1,6})\b")),
    # Without ``distributed=True`` it is what was asked for, often nodes.
    (
        b"distributed=True",
        re.compile(
            rb"^Namespace(?=\([^\n]{0,6000}\bdistributed=True)[^\n]{0,6000}[( ]"
            rb"world_size=(\d{1,6})\b",
            re.MULTILINE,
        ),
    ),
)
#: The devices of one node, or all of them.
_NODE: Final = (
    (b", replicas ", re.compile(rb"Run Pod: \w{1,32}, replicas (\d{1,6})\b")),
    (b"nproc_per_node=", re.compile(rb"nproc_per_node[= ](\d{1,6})\b")),
    (b"num_gpus=", re.compile(rb"\bnum_gpus=(\d{1,6})\b")),
    (b"Num GPUs ", re.compile(rb"\bNum GPUs (\d{1,6})\b")),
)
_BATCH: Final = (
    (b"sampler.batch_size=", re.compile(rb"Train\.sampler\.batch_size=(\d{1,9})\b")),
    (b"samples_per_gpu=", re.compile(rb"\bsamples_per_gpu=(\d{1,9})\b")),
    (b"Per-GPU Batch Size", re.compile(rb"Per-GPU Batch Size (\d{1,9})\b")),
    (b"batch_size_per_gpu", re.compile(rb"\bbatch_size_per_gpu : (\d{1,9})\b")),
    (b"max_tokens=", re.compile(rb"\bmax_tokens=(\d{1,9})\b")),
    (b"+ batch_size=", re.compile(rb"^\+ batch_size=(\d{1,9})\b", re.MULTILINE)),
    (b"Namespace(", re.compile(rb"[( ]batch_size=(\d{1,9})\b")),
    (
        b"train_dataloader = dict(",
        re.compile(rb"train_dataloader = dict\(\s{0,9}batch_size=(\d{1,9})\b"),
    ),
    (b"'batch_size'", re.compile(rb"'batch_size': ([1-9]\d{0,8}),")),
    (b"batch_size", re.compile(rb"\bbatch_size ?: ([1-9]\d{0,8})\b")),
)
#: Hugging Face's and PaddleNLP's Trainer: samples of a device, of an update of all, and how many
#: of the first a device adds up to one update.
_TRAINER: Final = (
    re.compile(rb"Instantaneous batch size per device = (\d[\d,]{0,11})\b"),
    re.compile(rb"Total train batch size \([^)\n]{1,99}\) = (\d[\d,]{0,11})\b"),
    re.compile(rb"Gradient Accumulation steps = (\d[\d,]{0,11})\b"),
)
_PRECISION: Final = (
    (b"+ precision=", re.compile(rb"^\+ precision=(\w{1,16})", re.MULTILINE)),
    # Megatron-LM, DeepSpeed, Hugging Face's Trainer, Lightning
    (b".. True", re.compile(rb"^ {1,8}(bf16|fp16) \.{3,60} True\b", re.MULTILINE)),
    (b"16_enabled ..", re.compile(rb"\] {2,4}(bfloat16|fp16)_enabled \.{3,40} True\b")),
    (b"16=True,", re.compile(rb"^(bf16|fp16)=True,", re.MULTILINE)),
    (
        b"Automatic Mixed Precision",
        re.compile(rb"Using (16bit|bfloat16) (?:native )?Automatic Mixed Precision"),
    ),
)
#: What others call it.
_SAME: Final = {"bfloat16": "bf16", "16bit": "amp"}
_END: Final = (b"Terminating with signal", b"Signal 15", b"received signal", b"SIGTERM")

_PATH_LAYOUT: Final = re.compile(r"(?<![A-Za-z0-9])(\d{1,4})n(\d{1,4})[gc](?![A-Za-z0-9])")
_PATH_NC: Final = re.compile(r"_N(\d{1,4})C(\d{1,4})(?![0-9])")
_PATH_WORLD: Final = re.compile(r"(?:gpus?|[_-]c|[_-]N)(\d{1,5})(?![0-9A-Za-z])")
_PATH_BATCH: Final = re.compile(
    r"(?<![A-Za-z])(?:bsz?|bz|b)(\d{1,9})(?![0-9A-Za-z])", re.IGNORECASE
)
_PATH_PRECISION: Final = re.compile(
    r"(?<![A-Za-z0-9])(pure_fp16|fp32|tf32|bf16|fp16|amp)(?![A-Za-z0-9])", re.IGNORECASE
)


#: Of a log that begins with much else, blocks after these are not searched.
_BLOCKS: Final = 16


@dataclass(kw_only=True, slots=True)
class Facts:
    """What is known of a run besides its rates; None is unknown."""

    world_size: int | None = None
    #: World sizes are a multiple of it.
    node_devices: int | None = None
    batch_size_per_device: int | None = None
    precision: str | None = None
    #: The text by which a log says that it was killed.
    killed_by: str = ""
    blocks: int = 0

    def look(self, block: bytes) -> None:
        """Take in what a block says and is not known yet; the first word counts."""
        self.blocks += 1
        if self.blocks > _BLOCKS:
            return
        self.world_size = self.world_size or _first(block, _WORLD, _devices)
        if b"Total train batch size" in block:
            self._look_at_trainer(block)
        self.node_devices = self.node_devices or _first(block, _NODE, int)
        self.batch_size_per_device = self.batch_size_per_device or _first(block, _BATCH, int)
        if self.precision is None:
            self.precision = _first(block, _PRECISION, _precision)

    def _look_at_trainer(self, block: bytes) -> None:
        """Take in a Trainer's account of its batches; one update is the iteration of its bar."""
        found = [pattern.search(block) for pattern in _TRAINER]
        numbers = [int(match[1].replace(b",", b"")) for match in found if match is not None]
        if len(numbers) < len(_TRAINER):
            return
        micro, total, accumulated = numbers
        if self.world_size is None and micro * accumulated:
            self.world_size = total // (micro * accumulated) or None
        if self.world_size and total % self.world_size == 0:
            self.batch_size_per_device = self.batch_size_per_device or total // self.world_size

    def look_at_end(self, tail: bytes) -> None:
        """Take in how the run ended, from the last blocks of its log."""
        self.killed_by = next((w.decode() for w in _END if w in tail), "")


def _precision(text: bytes) -> str:
    word = text.decode().lower()
    return _SAME.get(word, word)


def _devices(text: bytes) -> int:
    """Return a number of devices, which a mesh has by its dimensions."""
    return math.prod(int(part) for part in text.split(b","))


def _first(
    block: bytes, table: tuple[tuple[bytes, re.Pattern[bytes]], ...], read: Callable[[bytes], T]
) -> T | None:
    for anchor, pattern in table:
        if anchor in block and (match := pattern.search(block)):
            return read(match[1])
    return None


def of_path(path: str) -> Facts:
    """Return what a path says: a layout folder, and the words of the file's name."""
    parts = path.replace("\\", "/").split("/")
    name = parts[-1]
    facts = Facts()
    layouts = [m for part in parts[-3:] if (m := _PATH_LAYOUT.search(part))]
    if layouts:
        facts.world_size = int(layouts[-1][1]) * int(layouts[-1][2])
    elif match := _PATH_NC.search(name):
        facts.world_size = int(match[1]) * int(match[2])
    elif (worlds := _PATH_WORLD.findall(name)) and len(set(worlds)) == 1:
        facts.world_size = int(worlds[0])
    if match := _PATH_BATCH.search(name):
        facts.batch_size_per_device = int(match[1])
    if match := _PATH_PRECISION.search(name):
        facts.precision = match[1].lower()
    return facts
