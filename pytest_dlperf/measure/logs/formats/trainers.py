"""Formats of training libraries: Megatron-LM, DeepSpeed, Hugging Face and Lightning."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from pytest_dlperf.measure.logs.bar_clock import CLOCK, bar_fields, bar_numbers
from pytest_dlperf.measure.logs.declare import (
    GIB,
    Derived,
    Either,
    Field,
    Format,
    Loss,
    Numbers,
    behind_launcher,
    built_in,
    parser,
)

_ITERATION: Final = Field(rb"\biteration {1,12}", rb"/")
_ITERATIONS: Final = Field(rb"\biteration {1,12}\d{1,15}/ {0,12}")
# Of older Megatron-DeepSpeed in seconds.
_MILLISECONDS: Final = Either(
    Field(rb"elapsed time per iteration \(ms\): {0,12}"),
    Field(rb"elapsed time per iteration \(s\): {0,12}", per=0.001),
)
_GLOBAL_BATCH: Final = Field(rb"\b(?:global|gloabl) batch size: {1,12}")
_SAMPLES_A_SECOND: Final = Field(rb"\bsamples(?: per second|/sec): {1,12}")
_LM_LOSS: Final = Loss(rb"\blm[ _]loss:? {1,12}")
_GRAD_NORM: Final = Loss(rb"grad[ _]norm:? {1,12}")
_SKIPPED: Final = Field(rb"number of skipped iterations: {1,12}")
_NAN: Final = Field(rb"number of nan iterations: {1,12}")
# Of GPT-NeoX, and of Megatron-DeepSpeed.
_TFLOPS: Final = Field(
    rb"(?:throughput per GPU \(TFLOP/s/GPU\)|approx flops per GPU|\bTFLOPs): {1,12}"
)
# Of Primus, ``hip`` or ``rocm``; its GB are 2**30 bytes.
_USED_MEMORY: Final = Field(rb" mem usage/free/total/usage_ratio: {1,4}", rb"GB/", per=GIB)


def _megatron_numbers(line: bytes) -> dict[str, float | None] | None:
    """Read the numbers of a record."""
    step, milliseconds = _ITERATION.whole(line), _MILLISECONDS(line)
    if step is None or milliseconds is None:
        return None
    batch = _GLOBAL_BATCH(line)
    return {
        "step": step,
        "total": _ITERATIONS.whole(line),
        "milliseconds": milliseconds,
        "work": batch,
        "rate": _SAMPLES_A_SECOND(line) if batch is None else None,
        "loss": _LM_LOSS(line),
        "grad_norm": _GRAD_NORM(line),
        "memory_bytes": _USED_MEMORY(line),
        "tflops": _TFLOPS(line),
        "skipped": _SKIPPED(line),
        "not_finite": _NAN(line),
    }


def _megatron_fields(numbers: Mapping[str, Numbers]) -> Mapping[str, Numbers]:
    """Make the fields of a record; its rate is made from the batch where the line has one."""
    fields = dict(numbers)
    milliseconds = fields.pop("milliseconds")
    if "work" in fields:
        fields["rate"] = fields["work"] / milliseconds * 1000
    return {**fields, "seconds": milliseconds / 1000, "is_record": milliseconds > 0}


_HUGGINGFACE_BAR: Final = re.compile(
    rb"^(?:\d{1,5}:)?\s{0,8}(?:Steps: {1,4})?\d{1,3}%\|[^|\n]{0,400}\| {0,8}"
    rb"(?P<done>\d{1,15})/(?P<total>\d{1,15}) \["
    + CLOCK
    + rb"<[\d:?]{1,16}, {1,4}[\d.?]{1,9}(?:it/s|s/it)"
)
_WHOLE: Final = Field(rb"'?train_samples_per_second'?\s{0,32}[:=] {0,8}'?")
_WHOLE_SECONDS: Final = Field(rb"'train_runtime': '?")
_HUGGINGFACE_LOSS: Final = Loss(rb"(?:{'loss': '?|, step_loss=)")
_HUGGINGFACE_NORM: Final = Loss(rb"'grad_norm': '?")
_TOTAL: Final = Field(rb"\bTotal optimization steps = ")
_TRAINING: Final = b"***** Running training"
_NOT_TRAINING: Final = re.compile(rb"\*{5} Running (?:Evaluation|Prediction)")

#: What may be before a bar of training: marks of launchers, and its name. Other words, such as
#: those of an evaluation, make it another bar.
_TRAINING_AHEAD: Final = (
    rb"^(?:\s|\d{1,6}:|(?!\[[^\]\n]{0,99}(?i:eval|val|test|predict))\[[^\]\n]{0,99}\]:?"
    rb"|\([\w =,.-]{1,99}\)|[Tt]rain(?:ing)?:?\s){0,8}"
)
#: A bar of a program's own that is called training, and nothing else.
_NAMED_BAR: Final = re.compile(
    rb"^(?:\s|\d{1,6}:|\[rank ?\d{1,6}\]:?|\([\w =,.-]{1,99}\)){0,8}"
    rb"(?:[Ee]poch:? {0,2}\[?(?P<before>\d{1,9})(?:/\d{1,9})?\]?[ :,|-]{1,4})?"
    rb"[\[(]?[Tt]rain(?:ing)?[\])]?"
    rb"(?:[ :,|(-]{1,4}[Ee]poch:? {0,2}[\[#]?(?P<after>\d{1,9})(?:(?:/| of )\d{1,9})?[\])]?)?"
    rb" ?: {1,8}\d{1,3}%\|[^|\n]{0,400}\| {0,8}"
    rb"(?P<done>\d{1,15})/(?P<total>\d{1,15}) \[" + CLOCK + rb"<"
)
#: What is behind such a bar's clock where it counts something: ``127.70it/s``, ``1.2s/img``.
_BAR_UNIT: Final = re.compile(
    rb"[\d:?]{1,16}, {1,4}(?:[\d.?]{1,12} ?(?P<a_second>[A-Za-z]{1,16})/s\b"
    rb"|[\d.?]{1,12}s/ ?(?P<each>[A-Za-z]{1,16})\b)"
)
_BAR_STEPS: Final = frozenset(
    b"it iter iters iteration iterations step steps ba batch batches".split()
)
_BAR_SAMPLES: Final = frozenset(
    b"img imgs image images ex example examples sample samples seq seqs sequence sequences clip "
    b"clips sentence sentences".split()
)
_BAR_TOKENS: Final = frozenset(b"tok toks token tokens".split())
_NAMED_LOSS: Final = Loss(rb"\b(?:train_)?loss(?:=|: )")
_LIGHTNING_BAR: Final = re.compile(
    _TRAINING_AHEAD + rb"Epoch (?P<epoch>\d{1,9}):(?: :)? {1,8}\d{1,3}%\|[^|\n]{0,400}\| {0,8}"
    rb"(?P<done>\d{1,15})/(?P<total>\d{1,15}) \[" + CLOCK + rb"<"
)
_RICH_BAR: Final = re.compile(
    _TRAINING_AHEAD
    + rb"Epoch (?P<epoch>\d{1,9})/-?\d{1,9} [^\d\n]{1,400}(?P<done>\d{1,15})/(?P<total>\d{1,15}) "
    rb"(?P<hours>\d{1,6}):(?P<minutes>\d\d):(?P<seconds>\d\d) \xe2\x80\xa2 "
)
#: Lightning's own word behind its bar of training.
_VERSION: Final = re.compile(rb"\bv_num[=:]")
_VALIDATION: Final = re.compile(rb"^\s{0,8}Validat(?:ing|ion)\b")
_LIGHTNING_LOSS: Final = Loss(rb"\b(?:(?:reduced_)?train_)?loss(?:_step)?(?:=|: )")
_LIGHTNING_NORM: Final = Loss(rb"\bgrad_norm(?:=|: )")


def _huggingface(line: bytes) -> Mapping[str, float | None] | None:
    """Read a state of the bar, or words without a step; a line may have both.

    A bar does not end its line: a dictionary that is printed next follows it there.
    """
    bar = _HUGGINGFACE_BAR.match(line)
    loss = _HUGGINGFACE_LOSS(line)
    words: dict[str, float | None] = {
        "whole_run": _WHOLE(line),
        "whole_seconds": _WHOLE_SECONDS(line),
        "loss": loss,
    }
    norm = None if loss is None else _HUGGINGFACE_NORM(line)
    if bar is not None:
        return {**bar_numbers(bar), "total": int(bar["total"]), **words, "grad_norm": norm}
    words["total"] = _TOTAL.whole(line)
    words["aside"] = 0 if _TRAINING in line else 1 if _NOT_TRAINING.search(line) else None
    if all(word is None for word in words.values()):
        return None
    return {"step": -1, **words, "grad_norm": norm}


def _lightning(line: bytes) -> Mapping[str, float | None] | None:
    """Read a state of the bar, or that validation begins."""
    bar = _LIGHTNING_BAR.match(line) or _RICH_BAR.match(line)
    if bar is None:
        return {"step": -1, "aside": 1} if _VALIDATION.match(line) else None
    version = _VERSION.search(line, bar.end())
    if version is None and _NAMED_BAR.match(line):
        return None  # its name says what Lightning's does not: a program's own
    return {
        **bar_numbers(bar),
        "epoch": int(bar["epoch"]),
        "bar_steps": int(bar["total"]),
        "aside": None if version is None else 0,
        "loss": _LIGHTNING_LOSS(line),
        "grad_norm": _LIGHTNING_NORM(line),
    }


def _named_bar(line: bytes, units: frozenset[bytes]) -> Mapping[str, float | None] | None:
    """Read a state of a bar that is called training, and counts one of these units."""
    bar = _NAMED_BAR.match(line)
    if bar is None:
        return None
    counted = _BAR_UNIT.match(line, bar.end())
    # A bar without a rate counts steps.
    unit = b"it" if counted is None else counted["a_second"] or counted["each"]
    if unit not in units:
        return None
    epoch = bar["before"] or bar["after"]
    return {
        **bar_numbers(bar),
        "epoch": None if epoch is None else int(epoch),
        "bar_steps": int(bar["total"]),
        "aside": 0,
        "loss": _NAMED_LOSS(line),
    }


def _work_fields(numbers: Mapping[str, Numbers]) -> Mapping[str, Numbers]:
    """Make the fields of a bar that counts work: each of its steps is of one unit of it."""
    fields = bar_fields(numbers)
    return {**fields, "rate": 1 / fields["seconds"], "work": fields["step"] * 0 + 1}


def _named_bar_of(units: frozenset[bytes]) -> Callable[[bytes], Mapping[str, float | None] | None]:
    return behind_launcher(partial(_named_bar, units=units))


FORMATS: Final = built_in(
    # Megatron-LM: ``training_log`` of ``megatron/training/training.py``. Milliseconds of an
    # iteration over the window, and the global batch on the same line (``gloabl batch size`` in
    # Ascend's fork). ROCm's fork and Primus print a mean of recent iterations after a slash, which
    # is not used. GPT-NeoX (``megatron/logging.py``) and older Megatron-DeepSpeed name no batch
    # but the samples a second of all devices.
    Format(
        name="megatron",
        framework="torch",
        scope="global",
        averaging="window",
        unit="sequences",
        first_step=1,
        counter="global",
        anchors=(b"elapsed time per iteration (ms):", b"elapsed time per iteration (s):"),
        parse=Derived(_megatron_numbers, _megatron_fields),
    ),
    # DeepSpeed: ``ThroughputTimer`` of ``deepspeed/utils/timer.py``. ``CurrSamplesPerSec`` is the
    # global batch over the time of the printed step; the running mean next to it starts with the
    # second step, and must agree.
    Format(
        name="deepspeed",
        framework="torch",
        scope="global",
        averaging="iteration",
        unit="samples",
        first_step=1,
        counter="global",
        anchors=(b"CurrSamplesPerSec=",),
        parse=parser(
            Field(rb"/global_step="),
            required={"rate"},
            rate=Field(rb"\bCurrSamplesPerSec="),
            mean_rate=Field(rb"\bRunningAvgSamplesPerSec="),
            # Its GB are 2**30 bytes.
            memory_bytes=Field(rb"\bMaxMemAllocated=", rb"GB\b", per=GIB),
        ),
    ),
    # DeepSpeed before 0.7: ``0/40, SamplesPerSec=…`` of ``deepspeed/utils/timer.py``. A running
    # mean over all devices that leaves out two steps. With gradients accumulated a step is a micro
    # step, and only the mean has those between updates: ``CurrSamplesPerSec``, which came before
    # ``global_step`` did, is not used. The mean runs on where an epoch begins and the counter does
    # not: without an epoch such a log counts as several runs, and has no throughput.
    Format(
        name="deepspeed2021",
        framework="torch",
        scope="global",
        averaging="running",
        running_since=3,
        unit="samples",
        first_step=1,
        counter="global",
        anchors=(b"SamplesPerSec=",),
        parse=parser(
            re.compile(rb"[\] ]\d{1,9}/(?P<step>\d{1,15}), (?:RunningAvg)?SamplesPerSec="),
            rate=Field(rb", (?:RunningAvg)?SamplesPerSec="),
        ),
    ),
    # Hugging Face Trainer: its progress bar, and ``speed_metrics`` of ``trainer_utils.py``. The
    # bar of ``trainer_callback.py`` has no words before it: `` 5%|#  | 50/1000 [00:25<08:03,
    # 1.97it/s]`` counts updates of the whole run over the time since it began, a running mean.
    # The examples of Diffusers (``examples/text_to_image/train_text_to_image.py``) call the same
    # ``Steps: ``. Evaluation has another bar. Rates are printed once, of the whole run, warm-up
    # and all.
    Format(
        name="huggingface",
        framework="torch",
        scope="process",
        averaging="running",
        running_since=1,
        unit="samples",
        first_step=1,
        counter="global",
        anchors=(
            b"it/s",
            b"s/it",
            b"train_samples_per_second",
            b"{'loss':",
            b"***** Running ",
            b"Total optimization steps",
        ),
        parse=Derived(behind_launcher(_huggingface), bar_fields),
        bar=True,
        last_resort=True,
        # ``logging_nan_inf_filter``, which is on if nothing is said.
        zero_is_lost=True,
    ),
    # Lightning: the bars of ``pytorch_lightning/callbacks/progress``: ``Epoch 0:  10%|#  | 50/500
    # [00:25<03:45, 2.00it/s]`` of ``tqdm_progress.py``, and that of ``rich_progress.py``.
    # Iterations done over the time since the epoch began, a running mean. Before 2.0 the bar goes
    # on while validation does; what is drawn between states of validation's is not counted.
    Format(
        name="lightning",
        framework="torch",
        scope="process",
        averaging="running",
        running_since=1,
        unit="samples",
        first_step=1,
        anchors=(b"it/s", b"s/it"),
        parse=Derived(behind_launcher(_lightning), bar_fields),
        bar=True,
    ),
    # tqdm (github.com/tqdm/tqdm) in programs of their own: ``Epoch 1/400 train:  39%|…``,
    # ``Train epoch [3/9]: …``, ``Train: …``. Only where training is the whole name of the bar: any
    # other word may make it another one.
    Format(
        name="tqdm",
        scope="process",
        averaging="running",
        running_since=1,
        unit="samples",
        first_step=1,
        anchors=(b"rain",),
        parse=Derived(_named_bar_of(_BAR_STEPS), bar_fields),
        bar=True,
        last_resort=True,
    ),
    # The same where the bar counts samples, or tokens, of its process: ``unit`` of ``tqdm``, as in
    # ``64.00img/s``. So do iterations and the warm-up then.
    *(
        Format(
            name=f"tqdm-{unit}",
            scope="process",
            averaging="running",
            running_since=1,
            unit=unit,
            first_step=1,
            steps_are_work=True,
            anchors=(b"rain",),
            parse=Derived(_named_bar_of(units), _work_fields),
            bar=True,
            last_resort=True,
        )
        for unit, units in (("samples", _BAR_SAMPLES), ("tokens", _BAR_TOKENS))
    ),
)
