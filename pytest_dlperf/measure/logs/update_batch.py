"""The work of one update of all devices, where a program says it: no world size is needed then."""

from __future__ import annotations

import math
import re
from itertools import islice
from typing import Final

from pytest_dlperf.measure.logs.declare import WHOLE_NUMBER

#: Events of MLPerf's logging library.
_MLLOG: Final = re.compile(rb"\"key\": \"global_batch_size\", \"value\": ([1-9]\d{0,8})[,}]")
#: nanoGPT's tokens of all processes:
#: https://github.com/karpathy/nanoGPT/blob/master/train.py
_TOKENS: Final = re.compile(rb"tokens per iteration will be: ([1-9][\d,]{0,24})(?![._']?\d)")
#: The length of a sequence, in a dump of settings: Megatron-LM's dots, or an assignment, or
#: torchtitan's words for its trainer, as of
#: https://github.com/pytorch/torchtitan/blob/main/torchtitan/train.py and
#: https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/training/arguments.py
_SEQUENCE: Final = re.compile(
    rb"(?<![\w.-])(?:(?:max_)?(?:seq|sequence)_len(?:gth)?['\"]?(?: \.{3,80} ?| ?[:=] {0,8})"
    rb"|(?<=, )sequence length |^sequence length[:=] {0,8})([1-9]\d{0,8})(?![\w.])",
    re.MULTILINE,
)
#: Unsloth's banner, with the batch of a device, the accumulated ones, and the devices:
#: https://github.com/unslothai/unsloth/blob/main/unsloth/models/llama.py
_UNSLOTH: Final = re.compile(rb"\bTotal batch size (?:\([\d x]{1,40}\) )?= ([1-9][\d,]{0,11})\b")
#: llm-foundry's configuration, and torchtitan's words for its trainer:
#: https://github.com/mosaicml/llm-foundry/blob/main/llmfoundry/command_utils/train.py
_OF_ALL: Final = (
    (b"global_train_batch_size: ", re.compile(rb"\bglobal_train_batch_size: ([1-9]\d{0,8})\b")),
    (b", global batch size ", re.compile(rb", global batch size ([1-9]\d{0,8}),")),
)
#: A batch of all devices by the name of a setting. DeepSpeed calls it ``train_batch_size``:
#: https://www.deepspeed.ai/docs/config-json/
_SAID: Final = re.compile(
    rb"(?<![\w.-])(?i:(?:global|total|effective)[_ -](?:train[_ -])?batch[_ -]?size['\"]?"
    rb"(?: \.{3,80} ?|\s?[:=] {0,8})|train_batch_size \.{3,80} ?)([1-9]\d{0,8})" + WHOLE_NUMBER
)
#: More of them are of records, whose batch may grow.
_MOST_SAID: Final = 3
#: torchtitan's words for its trainer, which have the accumulated batches of a replica.
_TRAINER: Final = re.compile(
    rb"\blocal batch size (\d{1,9}), global batch size (\d{1,9}),"
    rb" gradient accumulation steps (\d{1,9}), sequence length (\d{1,9})\b"
)
#: The account that Hugging Face's Trainer prints at its end: ``speed_metrics`` of
#: https://github.com/huggingface/transformers/blob/main/src/transformers/trainer_utils.py
_SAMPLES: Final = re.compile(rb"'train_samples_per_second': '?(\d{1,15}(?:\.\d{1,15})?)\b")
_STEPS: Final = re.compile(rb"'train_steps_per_second': '?(\d{1,15}(?:\.\d{1,15})?)\b")
_SECONDS: Final = re.compile(rb"'train_runtime': '?(\d{1,15}(?:\.\d{1,15})?)\b")
_EPOCHS: Final = re.compile(rb"'epoch': '?(\d{1,9}(?:\.\d{1,15})?)\b")
_LINE_BYTES: Final = 4096


def batch_of_events(block: bytes) -> int | None:
    """Return the global batch size of a block's MLPerf events; None if there is none."""
    if b"global_batch_size" not in block or (match := _MLLOG.search(block)) is None:
        return None
    return int(match[1])


def batch_of_unsloth(block: bytes) -> int | None:
    """Return the samples of an update that Unsloth's banner says; None if a block has none.

    Where the memory did not suffice, it says a smaller one once more.
    """
    if b"Total batch size" not in block or not (banners := _UNSLOTH.findall(block)):
        return None
    return int(banners[-1].replace(b",", b""))


def batch_of_settings(block: bytes) -> int | None:
    """Return the samples of an update that a program's settings say; None if a block has none."""
    for anchor, pattern in _OF_ALL:
        if anchor in block and (match := pattern.search(block)):
            return int(match[1])
    return None


def batch_said(block: bytes) -> int | None:
    """Return the samples of an update that a setting of a block names; None without one alone."""
    if not any(word in block for word in (b"size", b"Size", b"SIZE")):
        return None
    said = [int(match[1]) for match in islice(_SAID.finditer(block), _MOST_SAID + 1)]
    return said[0] if len({*said}) == 1 and len(said) <= _MOST_SAID else None


def tokens_of_trainer(block: bytes) -> tuple[int, int] | None:
    """Return the tokens of an update of a replica and of all that torchtitan says."""
    if b", global batch size " not in block or (match := _TRAINER.search(block)) is None:
        return None
    local, in_all, accumulated, sequence = map(int, match.groups())
    return (local * accumulated * sequence, in_all * sequence) if local and in_all else None


def tokens_of_iteration(block: bytes) -> int | None:
    """Return the tokens of an iteration of all devices that a block says; None if it says none."""
    if b"tokens per iteration" not in block or (match := _TOKENS.search(block)) is None:
        return None
    return int(match[1].replace(b",", b""))


def tokens_of_sequence(block: bytes) -> int | None:
    """Return the first length of a sequence that a block's settings say; None without."""
    if not any(word in block for word in (b"seq_len", b"sequence_len", b"sequence length")):
        return None
    match = _SEQUENCE.search(block)
    return None if match is None else int(match[1])


def other_tokens(block: bytes, tokens: int | None) -> tuple[int, int] | None:
    """Return the tokens of an iteration, and the first others that a block says; None without."""
    if tokens is None or b"tokens per iteration" not in block:
        return None
    numbers = (int(match[1].replace(b",", b"")) for match in _TOKENS.finditer(block))
    later = next((number for number in numbers if number != tokens), None)
    return None if later is None else (tokens, later)


def batch_of_account(text: bytes) -> int | None:
    """Return the samples of an update by the Trainer's last account in a text; None if unknown.

    They are its samples over its steps, if that is one whole number by the digits that are
    printed. The last batch of an epoch may be smaller, or left over.
    """
    start = text.rfind(b"'train_samples_per_second'")
    if start < 0:
        return None
    begin = text.rfind(b"\n", 0, start) + 1
    end = text.find(b"\n", start)
    line = text[begin : min(len(text) if end < 0 else end, begin + _LINE_BYTES)]
    printed = [pattern.search(line) for pattern in (_SAMPLES, _STEPS, _SECONDS, _EPOCHS)]
    samples, steps, seconds, epochs = printed
    if samples is None or steps is None or seconds is None or epochs is None:
        return None
    least_steps, most_steps = _bounds(steps[1])
    updates = float(seconds[1]) * least_steps
    if least_steps <= 0 or updates < 1:
        return None
    # As many updates as epochs may have had fewer samples, or samples as many no update.
    rest = math.ceil(float(epochs[1])) / updates
    low, high = _bounds(samples[1])
    least = math.ceil(low / most_steps * (1 - rest))
    most = math.floor(high / least_steps * (1 + rest))
    return most if least == most and most > 0 else None


def _bounds(text: bytes) -> tuple[float, float]:
    """Return the least and the most that a number was rounded from."""
    half = 0.5 * 10.0 ** -len(text.partition(b".")[2])
    return float(text) - half, float(text) + half
