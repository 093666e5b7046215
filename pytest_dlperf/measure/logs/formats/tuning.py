"""Formats of programs that fine-tune language models, by examples or by rewards."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from pytest_dlperf.measure.logs.bar_clock import bar_fields
from pytest_dlperf.measure.logs.declare import (
    GIB,
    Derived,
    Either,
    Field,
    Format,
    Inverse,
    LogRecord,
    Loss,
    Numbers,
    built_in,
    json_count,
    json_loss,
    json_object,
    parser,
)

#: verl prints numbers of NumPy as such.
_VERL: Final = rb":(?:np\.float\d\d\()?"
_verl_line = parser(
    re.compile(rb"(?<![_/])\bstep:(?P<step>\d{1,15}) - "),
    required={"seconds"},
    rate=Field(rb" - perf/throughput" + _VERL),
    seconds=Either(Field(rb" - perf/time_per_step" + _VERL), Field(rb" - timing_s/step" + _VERL)),
    grad_norm=Loss(rb" - actor/grad_norm" + _VERL),
    memory_bytes=Field(rb" - perf/max_memory_allocated_gb" + _VERL, per=GIB),
    mfu=Field(rb" - perf/mfu/actor" + _VERL),
)
_VERL_BESIDE: Final = {
    "testing": Field(rb" - timing_s/testing" + _VERL),
    "saving": Field(rb" - timing_s/save_checkpoint" + _VERL),
}


def _verl_numbers(line: bytes) -> Mapping[str, float | None] | None:
    record = _verl_line(line)
    if record is None:
        return None
    names = ("step", "rate", "seconds", "grad_norm", "memory_bytes", "mfu")
    return {
        **{name: getattr(record, name) for name in names},
        **{name: field(line) for name, field in _VERL_BESIDE.items()},
    }


def _verl_fields(numbers: Mapping[str, Numbers]) -> Mapping[str, Numbers]:
    """Take the validation and the checkpoint out of the time of a step, and of its rate."""
    fields = {name: value for name, value in numbers.items() if name not in _VERL_BESIDE}
    beside = sum(numbers[name] for name in _VERL_BESIDE if name in numbers)
    seconds = numbers["seconds"] - beside
    if "rate" in numbers:
        fields["rate"] = numbers["rate"] * (numbers["seconds"] / seconds)
    return {**fields, "seconds": seconds, "is_record": seconds > 0}


_SWIFT_STEP: Final = re.compile(
    rb"global_step/max_steps\]?['\"]: ['\"](?P<step>\d{1,15})/(?P<total>\d{1,15})['\"]"
)
_SWIFT_SECONDS: Final = Either(
    Inverse(rb"['\"]train_speed\(iter/s\)['\"]: "),
    Field(rb"['\"]train_speed\(s/it(?:er)?\)['\"]: "),
)
_swift_line = parser(
    _SWIFT_STEP,
    required={"seconds"},
    seconds=_SWIFT_SECONDS,
    loss=Loss(rb"\{['\"]loss['\"]: "),
    grad_norm=Loss(rb"['\"]grad_norm['\"]: "),
    memory_bytes=Field(rb"['\"]memory\(GiB\)['\"]: ", per=GIB),
)
_SWIFT_CLOCK: Final = re.compile(
    rb"['\"]elapsed_time['\"]: ['\"]"
    rb"(?:(\d{1,4})d )?(?:(\d{1,2})h )?(?:(\d{1,2})m )?(\d{1,2})s['\"]"
)
_OF_TRAINING: Final = ("loss", "lr", "learning_rate", "reward")
_CLOCK: Final = re.compile(r"(?:(\d{1,6}) days?, )?(\d{1,6}):(\d\d):(\d\d)")


def _swift(line: bytes) -> LogRecord | None:
    """Read a record, or that the run was evaluated, whose time is in the next mean."""
    if b"eval_loss" in line and _SWIFT_STEP.search(line):
        return LogRecord(step=-1, aside=1)
    return _swift_line(line)


def _swift_since(fmt: Format, block: bytes) -> Format:
    """Return the format with the step since which its mean runs, by a block.

    ``train_speed(s/it)`` is the time since this run began over its own steps: where it goes on
    from a checkpoint, the time that has passed says how many these are. Some versions divide by
    all steps; then they agree with a run that began at 0.
    """
    latest, earliest = math.inf, 0.0
    for line in block.split(b"\n"):
        record, clock = _swift_line(line), _SWIFT_CLOCK.search(line)
        if record is None or clock is None or not record.seconds:
            continue
        days, hours, minutes, seconds = (int(part or 0) for part in clock.groups())
        elapsed_s = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
        # Printed as whole seconds, rounded or cut
        earliest = max(earliest, record.step - (elapsed_s + 1) / record.seconds)
        latest = min(latest, record.step - (elapsed_s - 1) / record.seconds)
    if not 0.5 < earliest <= latest < math.inf:
        return replace(fmt, by_block=None)
    return replace(fmt, running_since=round((earliest + latest) / 2) + 1, by_block=None)


def _llamafactory(line: bytes) -> Mapping[str, float | None] | None:
    """Read the numbers of a record, or that the run was evaluated."""
    record = json_object(line)
    step = None if record is None else json_count(record.get("current_steps"))
    if record is None or step is None or "total_steps" not in record:
        return None
    if record.get("eval_loss") is not None:
        return {"step": -1, "aside": 1}
    clock = _clock_numbers(record.get("elapsed_time"))
    # The last line is of the whole run, and has no number of training.
    trains = any(record.get(name) is not None for name in _OF_TRAINING)
    if clock is None or not trains:
        return None
    return {**clock, "done": step, "loss": json_loss(record.get("loss"))}


def _clock_numbers(text: Any) -> dict[str, float] | None:
    """Return the parts of a text such as ``1 day, 2:03:04``."""
    match = _CLOCK.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return {"days": days, "hours": hours, "minutes": minutes, "seconds": seconds}


FORMATS: Final = built_in(
    # verl: ``verl/utils/logger/aggregate_logger.py`` with the numbers of
    # ``verl/trainer/ppo/metric_utils.py`` (github.com/volcengine/verl): one line of all metrics.
    # Tokens of a step over its time and all devices; ``timing_s/step`` has the validation and the
    # checkpoint in it (``verl/trainer/ppo/ray_trainer.py``), which are taken out.
    Format(
        name="verl",
        framework="torch",
        scope="device",
        averaging="iteration",
        unit="tokens",
        first_step=1,
        counter="global",
        anchors=(b" - timing_s/step:", b" - perf/time_per_step:"),
        parse=Derived(_verl_numbers, _verl_fields),
    ),
    # DeepSpeed-Chat's third step: ``step3_rlhf_finetuning/main.py`` with
    # ``print_throughput_step3`` of ``dschat/utils/perf.py`` (github.com/deepspeedai/
    # DeepSpeedExamples): a step's losses, then its time with the generation, and the samples of
    # all devices over it.
    Format(
        name="deepspeed-chat",
        framework="torch",
        scope="global",
        averaging="iteration",
        unit="samples",
        anchors=(b"ppo_ep: ", b"PPO Epoch: ", b"|E2E latency="),
        parse=parser(
            re.compile(
                rb"\b[Ee]poch: (?P<epoch>\d{1,9}) ?\| ?[Ss]tep: (?P<step>\d{1,15}) ?\| ?"
                rb"(?:ppo_ep|PPO Epoch): "
            ),
            alone={"rate"},
            rate=Field(rb"\bCurSamplesPerSec="),
            mean_rate=Field(rb"\bAvgSamplesPerSec="),
            seconds=Field(rb"\|E2E latency=", rb"s\b"),
        ),
        several_lines=True,
    ),
    # ms-swift: ``swift/plugin/callback.py`` and ``trainers/mixin.py``
    # (github.com/modelscope/ms-swift), as a dictionary and as ``logging.jsonl``. Updates over the
    # time since training began, a running mean; the batch is in the Trainer's own account.
    Format(
        name="ms-swift",
        framework="torch",
        scope="process",
        averaging="running",
        running_since=1,
        unit="samples",
        first_step=1,
        counter="global",
        anchors=(b"global_step/max_steps",),
        parse=_swift,
        by_block=_swift_since,
        batch_of="global",
    ),
    # LLaMA-Factory's ``trainer_log.jsonl``: ``src/llamafactory/train/callbacks.py``
    # (github.com/hiyouga/LLaMA-Factory): updates, and whole seconds since training began.
    Format(
        name="llamafactory",
        framework="torch",
        scope="process",
        averaging="running",
        running_since=1,
        unit="samples",
        first_step=1,
        counter="global",
        anchors=(b'"current_steps": ',),
        parse=Derived(_llamafactory, bar_fields),
        clock_resolution=1.0,
        batch_of="global",
    ),
)
