"""Facts that a log states about its run: world size, batch, precision, restarts, how it ended."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, TypeVar

from pytest_dlperf.measure.logs import (
    benchmark_settings,
    device_words,
    image_sizes,
    part_words,
    path_words,
    update_batch,
    yolo_settings,
)
from pytest_dlperf.measure.logs.clean import lines_with, untagged, without_line_tags
from pytest_dlperf.measure.logs.declare import Format, LogRecord
from pytest_dlperf.measure.logs.device_words import DeviceWords
from pytest_dlperf.measure.logs.evaluation_words import names_evaluation

#: Patterns, each with an anchor; a pattern is tried only in blocks that have its anchor.
Table = tuple[tuple[bytes, re.Pattern[bytes]], ...]
T = TypeVar("T")
#: The batch size, of a device or of more by the format.
_BATCH_SIZES: Final = (
    (b"sampler.batch_size=", re.compile(rb"Train\.sampler\.batch_size=([1-9]\d{0,8})\b")),
    (b"samples_per_gpu=", re.compile(rb"\bsamples_per_gpu=([1-9]\d{0,8})\b")),
    (b"Per-GPU Batch Size", re.compile(rb"Per-GPU Batch Size ([1-9]\d{0,8})\b")),
    (b"batch_size_per_gpu", re.compile(rb"\bbatch_size_per_gpu : ([1-9]\d{0,8})\b")),
    (b"max_tokens=", re.compile(rb"\bmax_tokens=([1-9]\d{0,8})\b")),
    (b"+ batch_size=", re.compile(rb"^\+ batch_size=([1-9]\d{0,8})\b", re.MULTILINE)),
    (b"Namespace(", re.compile(rb"[( ]batch_size=([1-9]\d{0,8})\b")),
    # Of the lines within, the one that is indented no further.
    (
        b"train_dataloader = dict(",
        re.compile(
            rb"train_dataloader = dict\((?:\s{0,9}|(?:\n {4}[^\n]{0,400}){0,40}?\n {4})"
            rb"batch_size=([1-9]\d{0,8})\b"
        ),
    ),
    # Ultralytics' YOLO and YOLOv5
    (
        b"engine/trainer: ",
        re.compile(rb"\bengine/trainer: [^\n]{0,4000}?\bbatch=([1-9]\d{0,8}),"),
    ),
    (
        b"train: weights=",
        re.compile(rb"\btrain: weights=[^\n]{0,4000}?\bbatch_size=([1-9]\d{0,8}),"),
    ),
    (
        b"train: model=",
        re.compile(rb"\btrain: model=[^\n]{0,4000}?\bbatch_size=([1-9]\d{0,8}),"),
    ),
    # detectron2's dump of its settings; of all devices
    (b"IMS_PER_BATCH: ", re.compile(rb"\bIMS_PER_BATCH: ([1-9]\d{0,8})\b")),
    # YOLO's choice of a batch by the memory, where its settings have none
    (
        b"batch-size ",
        re.compile(
            rb"(?i)\bAutoBatch: [^\n]{0,200}?\busing (?:default )?batch-size ([1-9]\d{0,8})\b"
        ),
    ),
    (b"'batch_size'", re.compile(rb"'batch_size': ([1-9]\d{0,8}),")),
)
_BATCH_SETTING: Final = re.compile(rb"\bbatch_size ?: ([1-9]\d{0,8})\b")
#: What comes before a line of a dump of settings, and the name of the setting.
_SETTING_HEAD: Final = re.compile(rb"^[^\n]{0,80}?(?:INFO|DEBUG)\]?: ?")
_SETTING_KEY: Final = re.compile(rb"(\s{0,80})([A-Za-z_]\w{0,60}) ?:")
_TRAINS: Final = re.compile(rb"train", re.IGNORECASE)
_EVALUATES: Final = re.compile(rb"eval|val|test|infer|predict", re.IGNORECASE)
#: So many settings of the name are looked at, and so many lines above each.
_MOST_SETTINGS: Final = 32
_LINES_ABOVE: Final = 400
#: All devices of the run.
_WORLD: Final = (
    (b"PADDLE_TRAINERS_NUM", re.compile(rb"PADDLE_TRAINERS_NUM\s{1,64}([1-9]\d{0,5})\b")),
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
    # The experts' part, ``ep``, is within the others.
    (
        b"device mesh with parallelism: ",
        re.compile(
            rb"device mesh with parallelism: "
            rb"((?:(?:pp|dp|dp_replicate|dp_shard|cp|tp)=\d{1,6}, ){0,7}"
            rb"(?:pp|dp|dp_replicate|dp_shard|cp|tp)=\d{1,6})\b"
        ),
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
    (b"nproc_per_node", re.compile(rb"nproc_per_node[ :=]{1,24}([1-9]\d{0,5})\b")),
    (b"num_gpus=", re.compile(rb"\bnum_gpus=([1-9]\d{0,5})\b")),
    # Unsloth names those of the machine before those that it uses.
    (
        b"Num GPUs ",
        re.compile(rb"(?:\bNum GPUs (?:used = )?|finetuning \| Num GPUs = )([1-9]\d{0,5})\b"),
    ),
    (b"num_gpus_per_node: ", re.compile(rb"\bnum_gpus_per_node: ([1-9]\d{0,5})\b")),
)
#: How many nodes, printed with the devices of one; ``1:4`` is a range, and not a number. The
#: longer word is the anchor: a short one costs several times as much to look for.
_NODES: Final = (
    (b"nproc_per_node", re.compile(rb"\bnnodes[ :=]{1,24}([1-9]\d{0,5})(?![\d:])")),
    (b"num_gpus_per_node: ", re.compile(rb"\bnum_nodes: ([1-9]\d{0,5})\b")),
    (
        b"nproc_per_node",
        re.compile(rb"min_nodes {1,24}: ([1-9]\d{0,5})\s{1,40}max_nodes {1,24}: \1\b"),
    ),
)
#: Of these a run may say several: meshes within meshes, a test on one device after training.
_MAY_DIFFER: Final = frozenset(
    {
        b"-D device mesh with [",
        b"device mesh with parallelism: ",
        b"registered. Starting with ",
        b"num_gpus=",
        b"Num GPUs ",
        b"num_gpus_per_node: ",
    }
)
#: Hugging Face's and PaddleNLP's Trainer: samples of a device, of an update of all, and how many
#: of the first a device adds up to one update.
_TRAINER: Final = (
    re.compile(rb"Instantaneous batch size per device = (\d[\d,]{0,11})\b"),
    re.compile(rb"Total train batch size \([^)\n]{1,99}\) = (\d[\d,]{0,11})\b"),
    re.compile(rb"Gradient Accumulation steps = (\d[\d,]{0,11})\b"),
)
_PER_REPLICA: Final = b"'use_per_replica_batch_size': True"
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
#: Other names of a precision.
_SAME: Final = {"bfloat16": "bf16", "16bit": "amp"}
_SIGNAL: Final = re.compile(
    rb"Terminating with signal|Signal (?:15|9)\b|received signal|SIGTERM|SIGKILL"
)
#: So many times more records come before a signal's word than after it.
_AFTER: Final = 4
#: Words that come after the last record.
_CRASH: Final = re.compile(
    rb"\bKilled\b|CUDA out of memory|[Oo]ut [Oo]f [Mm]emory|OutOfMemoryError|ResourceExhausted"
    rb"|Segmentation fault|core dumped|exitcode *: -\d{1,3}|Traceback \(most recent call last\)"
)
#: Of a log that begins with much else, blocks after these are not searched.
_MOST_BLOCKS: Final = 16
#: How a log ends is in so many of its last bytes.
TAIL_BYTES: Final = 1 << 16
#: A word of the log: its anchor, its pattern, and the number that it was read as.
Word = tuple[bytes, re.Pattern[bytes], int]


#: Words by which Slurm ends a job, torchrun starts its workers again, and programs go on from a
#: checkpoint: https://slurm.schedmd.com/preempt.html,
#: https://github.com/pytorch/pytorch/blob/main/torch/distributed/elastic/agent/server/api.py
_BREAKS: Final = (
    b"DUE TO PREEMPTION",
    b"DUE TO TIME LIMIT",
    b"DUE TO NODE FAILURE",
    b"will restart worker group",
    b"esuming ",
    b"esumed ",
    b"estarting ",
    b"estarted ",
)
_BREAK: Final = re.compile(
    rb"DUE TO (?:PREEMPTION|TIME LIMIT|NODE FAILURE)|will restart worker group"
    rb"|\b[Rr]esum(?:ing|ed) (?:the )?(?:(?:training|run|model|job) ){0,2}"
    rb"(?:from|(?:at|with) (?:global )?(?:step|epoch|iteration|iter|batch))\b"
    # A learning rate restarts as well.
    rb"|\b[Rr]estart(?:ing|ed) (?:the )?(?:(?:training|run|model|job) ){1,2}(?:from|at)\b"
    rb"|\b[Rr]estart(?:ing|ed) from (?:the )?(?:last |latest )?(?:checkpoint|ckpt)"
)
#: What else goes on from somewhere while training runs, by a word of the same line.
_RESUMES_ELSE: Final = re.compile(
    rb"data|shard|sampler|wandb|tensorboard|buffer|queue|cache|download|upload|sync|pause|eval|valid"
    rb"|scheduler|profile",
    re.IGNORECASE,
)
_CHECKPOINT: Final = re.compile(rb"checkpoint|ckpt", re.IGNORECASE)
#: So many records after them are of a run that went on: less are what was still to be written.
_RECORDS_AFTER: Final = 10


class Restarts:
    """Words of a run's start that come again between two records, and words of its end there."""

    def __init__(self) -> None:
        #: The word by which a run starts again, with records before and after; empty: none.
        self.word = ""
        #: The word by which one was broken off, and records before and after; empty: none.
        self.break_word = ""
        self._break = ""
        self._devices = DeviceWords()
        #: Words of the last block, before it is known whether a record is in it.
        self._devices_before: list[re.Match[bytes]] = []
        self._records_after = 0
        self._words: dict[bytes, re.Pattern[bytes]] = {}
        self._records: tuple[bytes, ...] = ()
        self._parse: Callable[[bytes], LogRecord | None] | None = None
        self._rank: int | None = None
        self._has_records = False
        self._again = b""

    def know(self, anchor: bytes, pattern: re.Pattern[bytes], block: bytes, at: int) -> None:
        """Take in a word of the first run's start, at its place in a block."""
        if not self._words:
            self._rank = _rank_at(block, at)
        self._words[anchor] = pattern

    def begin(self, fmt: Format, block: bytes) -> None:
        """Look from the first block with a record of a format on."""
        self._records = fmt.anchors
        # Where lines before it give its meaning, a line by itself does not show it.
        self._parse = None if fmt.begin is not None else fmt.parse
        self._devices_before = []
        self.look(block)

    def look(self, block: bytes) -> None:
        """Look at the next block; of blocks before ``begin`` at their words of devices alone."""
        if not self._records:
            self._devices.take(self._devices_before)
            self._devices_before = [*device_words.matches(block)]
            return
        if self.word or self.break_word:
            return
        self._look_for_break(block)
        if self._again and self._has_record(block):
            self.word = self._again.decode(errors="replace")
        for anchor, pattern in self._words.items():
            if anchor in block:
                self._look_at(block, pattern)
        self._has_records = self._has_records or self._has_record(block)

    def _look_for_break(self, block: bytes) -> None:
        """Look for words of a break after the first record, and count the records after them."""
        if self._parse is None and self._records == (b"\n",):
            return  # any line would be a record
        rest = block
        if not self._break:
            match = next(self._breaks_in(block), None)
            if match is None:
                return
            self._break, rest = match[0].decode(), block[match.start() :]
        for _ in islice(self._steps_in(rest), _RECORDS_AFTER):
            self._records_after += 1
        if self._records_after >= _RECORDS_AFTER:
            self.break_word = self._break

    def _breaks_in(self, block: bytes) -> Iterator[re.Match[bytes]]:
        """Yield words of a break, and of other devices, that have a record before them."""
        has_word = any(word in block for word in _BREAKS)
        for match in _BREAK.finditer(block) if has_word else ():
            if not _goes_on_beside(block, match.start()) and self._has_before(block, match):
                yield match
        for match in device_words.matches(block):
            if not self._has_before(block, match):
                self._devices.take([match])
            elif self._devices.is_other(match) and not _is_beside(block, match.start()):
                yield match

    def _has_before(self, block: bytes, match: re.Match[bytes]) -> bool:
        return self._has_records or self._has_record(block[: match.start()])

    def _look_at(self, block: bytes, pattern: re.Pattern[bytes]) -> None:
        for match in pattern.finditer(block):
            before = self._has_before(block, match)
            # Other ranks may print their start later than the first record.
            if before and not self.word and _rank_at(block, match.start()) == self._rank:
                self._again = match[0]
                if self._has_record(block[match.end() :]):
                    self.word = self._again.decode(errors="replace")

    def _has_record(self, text: bytes) -> bool:
        """Return whether a text has a step: a word that its lines have is not one yet."""
        return any(True for _ in self._steps_in(text))

    def _steps_in(self, text: bytes) -> Iterator[bytes]:
        """Yield the lines of a text that are records with a step."""
        if not any(anchor in text for anchor in self._records):
            return
        for line in lines_with(text, self._records):
            record = None if self._parse is None else self._parse(line.text)
            if self._parse is None or (record is not None and record.step >= 0):
                yield line.text


def _goes_on_beside(block: bytes, at: int) -> bool:
    """Return whether the line at a place says that something other than training goes on."""
    start, end = block.rfind(b"\n", 0, at) + 1, block.find(b"\n", at)
    line = block[start : end if end >= 0 else len(block)]
    return _RESUMES_ELSE.search(line) is not None and _CHECKPOINT.search(line) is None


def _is_beside(block: bytes, at: int) -> bool:
    """Return whether what is before a place in its line names something other than training."""
    start = block.rfind(b"\n", 0, at) + 1
    return names_evaluation(block[start:at]) or _goes_on_beside(block, at)


def _rank_at(block: bytes, at: int) -> int | None:
    start, end = block.rfind(b"\n", 0, at) + 1, block.find(b"\n", at)
    return untagged(block[start : end if end >= 0 else len(block)]).rank


def batch_size(block: bytes) -> int | None:
    """Return the first batch size of training in a block; None if there is none."""
    for anchor, pattern in _BATCH_SIZES:
        if anchor in block and (match := pattern.search(block)):
            return int(match[1])
    return _batch_of_settings(block) if b"batch_size" in block else None


def _batch_of_settings(block: bytes) -> int | None:
    """Return the batch size of a dump of settings, by the sections that it is in."""
    free = None
    for match in islice(_BATCH_SETTING.finditer(block), _MOST_SETTINGS):
        sections = _sections(block, match.start())
        if any(_TRAINS.match(section) for section in sections):
            return int(match[1])
        if free is None and not any(_EVALUATES.match(section) for section in sections):
            free = int(match[1])
    return free


def _sections(block: bytes, at: int) -> list[bytes]:
    """Return the names that lines above have, each indented less than what it holds."""
    start = block.rfind(b"\n", 0, at) + 1
    indent, _ = _setting(block[start:at] + b"batch_size :")
    sections: list[bytes] = []
    for _ in range(_LINES_ABOVE):
        if start == 0 or not indent:
            break
        end = start - 1
        start = block.rfind(b"\n", 0, end) + 1
        depth, name = _setting(block[start : min(end, start + 400)])
        if depth is not None and depth < indent:
            indent = depth
            sections.append(name)
    return sections


def _setting(line: bytes) -> tuple[int | None, bytes]:
    """Return how far a setting is indented, and its name; None if the line is not a setting."""
    match = _SETTING_KEY.match(_SETTING_HEAD.sub(b"", line, count=1))
    return (None, b"") if match is None else (len(match[1]), match[2])


@dataclass(kw_only=True, slots=True)
class Facts:
    """What a log, or a path, states about a run besides its rates; None is unknown."""

    #: Devices of all nodes.
    world_size: int | None = None
    #: World sizes are a multiple of it.
    node_devices: int | None = None
    nodes: int | None = None
    #: As the log says it: of a device or of all by the format.
    batch_size: int | None = None
    #: A Trainer's: samples of an update of all devices, and how many of them have data of their
    #: own. Under tensor or pipeline parallel more devices than that are one of those.
    update_batch: int | None = None
    #: The same by a program's settings, whose rates say what they are of: it is only compared.
    settings_batch: int | None = None
    #: The same by the name of any setting, and torchtitan's tokens of a replica and in all: only
    #: the clock is compared with them.
    said_batch: int | None = None
    trainer_tokens: tuple[int, int] | None = None
    #: The same by MLPerf's events. Where lines have a rate, their step may count samples.
    event_batch: int | None = None
    #: Tokens of an iteration of all devices.
    iteration_tokens: int | None = None
    #: Tokens of a sequence.
    sequence_length: int | None = None
    #: Pixels of an image's longer side.
    image_size: int | None = None
    data_parallel: int | None = None
    #: TensorFlow's models print this if the batch is not that of all.
    per_replica: bool = False
    precision: str | None = None
    #: Whether to look for sentences that say whose rates a log has: for a pattern without a scope.
    asks_whose_rates: bool = False
    #: A sentence that rates are of a part of the devices.
    rate_of_part: str = ""
    #: The text that shows that the run was killed.
    killed_by: str = ""
    #: Two values of one word, where a log has them: it holds runs on other devices.
    two_worlds: tuple[int, int] | None = None
    #: The same of the tokens of an iteration.
    two_works: tuple[int, int] | None = None
    blocks: int = 0
    #: A last line that does not end, and was not read.
    cut_line: bytes = b""
    #: The last bytes so far.
    tail: bytes = b""
    restarts: Restarts = field(default_factory=Restarts)
    _words: list[Word] = field(default_factory=list)

    @property
    def all_devices(self) -> int | None:
        """The world size by the log's own words; None if it names none, or one node's alone."""
        if self.world_size is not None or self.nodes is None or self.node_devices is None:
            return self.world_size
        return self.nodes * self.node_devices

    def look(self, block: bytes) -> None:
        """Take in the facts of a block that are not known yet; the first word counts."""
        self.blocks += 1
        if self.blocks > _MOST_BLOCKS:
            return
        self.world_size = self.world_size or self._devices_in(block, _WORLD)
        self.world_size = self.world_size or yolo_settings.devices(block)
        if b"Total train batch size" in block:
            self._look_at_trainer(block)
        self.update_batch = self.update_batch or update_batch.batch_of_unsloth(block)
        self.settings_batch = self.settings_batch or update_batch.batch_of_settings(block)
        self.said_batch = self.said_batch or update_batch.batch_said(block)
        self.trainer_tokens = self.trainer_tokens or update_batch.tokens_of_trainer(block)
        self.event_batch = self.event_batch or update_batch.batch_of_events(block)
        self.iteration_tokens = self.iteration_tokens or update_batch.tokens_of_iteration(block)
        self.sequence_length = self.sequence_length or update_batch.tokens_of_sequence(block)
        self.two_works = update_batch.other_tokens(block, self.iteration_tokens)
        keep = self.world_size is None
        self.node_devices = self.node_devices or self._devices_in(block, _NODE, keep=keep)
        self.nodes = self.nodes or self._devices_in(block, _NODES, keep=keep)
        self.per_replica = self.per_replica or _PER_REPLICA in block
        self.image_size = self.image_size or image_sizes.image_size(block)
        if self.asks_whose_rates:
            self.rate_of_part = self.rate_of_part or part_words.rate_of_part(block)
        settings = without_line_tags(block)
        self.batch_size = self.batch_size or batch_size(settings)
        if (sizes := benchmark_settings.sizes(settings)) is not None:
            self.batch_size = self.batch_size or sizes.batch
            self.world_size = self.world_size or sizes.devices
            self.node_devices = self.node_devices or sizes.node_devices
        if self.precision is None:
            self.precision = _first(settings, _PRECISION, _precision)

    def watch(self, block: bytes) -> None:
        """Take in what any block may say: another world size, a run's start, how the log ends."""
        end = block if len(block) >= TAIL_BYTES else self.tail + block
        self.tail = end[-TAIL_BYTES:]
        self.look_again(block)
        self.two_works = self.two_works or update_batch.other_tokens(block, self.iteration_tokens)
        self.restarts.look(block)

    def look_again(self, block: bytes) -> None:
        """Look for another world size, a later run's, by the words that named the first."""
        for anchor, pattern, value in self._words:
            if self.two_worlds is None and anchor in block:
                numbers = (_devices(match[1]) for match in pattern.finditer(block))
                later = next((number for number in numbers if number != value), None)
                self.two_worlds = None if later is None else (value, later)

    def _devices_in(self, block: bytes, table: Table, *, keep: bool = True) -> int | None:
        for anchor, pattern in table:
            if anchor in block and (match := pattern.search(block)):
                found = _devices(match[1])
                self.restarts.know(anchor, pattern, block, match.start())
                if keep and anchor not in _MAY_DIFFER:
                    self._words.append((anchor, pattern, found))
                    self.look_again(block)
                return found or None
        return None

    def _look_at_trainer(self, block: bytes) -> None:
        """Take in a Trainer's account of its batches; one update is the iteration of its bar."""
        found = [pattern.search(block) for pattern in _TRAINER]
        numbers = [int(match[1].replace(b",", b"")) for match in found if match is not None]
        if len(numbers) < len(_TRAINER) or self.update_batch is not None:
            return
        micro, total, accumulated = numbers
        self.update_batch = total or None
        if micro * accumulated:
            self.data_parallel = total // (micro * accumulated) or None

    def look_at_end(self, anchors: tuple[bytes, ...]) -> None:
        """Take in how the run ended, from the tail; records are lines with one of ``anchors``.

        A launcher's words come before what its processes had still to write.
        """
        tail = self.tail
        self.update_batch = self.update_batch or update_batch.batch_of_account(tail)
        last = max((tail.rfind(anchor) for anchor in anchors), default=-1)
        if match := _CRASH.search(tail, max(last, 0)):
            self.killed_by = match[0].decode()
        for match in _SIGNAL.finditer(tail):
            before, after = tail[: match.start()], tail[match.end() :]
            if _AFTER * _count(after, anchors) <= _count(before, anchors):
                self.killed_by = match[0].decode()
                return


def _count(text: bytes, anchors: tuple[bytes, ...]) -> int:
    return sum(text.count(anchor) for anchor in anchors)


def _precision(text: bytes) -> str:
    word = text.decode().lower()
    return _SAME.get(word, word)


def _devices(text: bytes) -> int:
    """Return a number of devices, which a mesh has by its dimensions, with names or without."""
    return math.prod(int(part.rpartition(b"=")[2]) for part in text.split(b","))


def _first(block: bytes, table: Table, read: Callable[[bytes], T]) -> T | None:
    for anchor, pattern in table:
        if anchor in block and (match := pattern.search(block)):
            return read(match[1])
    return None


def facts_of_path(path: str) -> Facts:
    """Return the facts that a path states."""
    return Facts(
        world_size=path_words.world_size(path),
        batch_size=path_words.batch_size(path),
        precision=path_words.precision(path),
    )
