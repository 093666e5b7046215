"""Formats of programs that train language models from scratch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from pytest_dlperf.measure.logs.declare import (
    Derived,
    Either,
    Event,
    Field,
    Format,
    InOrder,
    LogRecord,
    Loss,
    Numbers,
    behind_launcher,
    built_in,
    parser,
)

_NEMO: Final = {
    "step": Field(rb"\bglobal_step(?:: |=)"),
    "seconds": Field(rb"\btrain_step_timing in s(?:: |=)"),
    "batch": Field(rb"\bglobal_batch_size(?:: |=)"),
    "samples": Field(rb"\bconsumed_samples(?:: |=)"),
    "loss": Loss(rb"\breduced_train_loss(?:: |=)"),
}


def _nemo_numbers(line: bytes) -> Mapping[str, float | None] | None:
    numbers = {name: field(line) for name, field in _NEMO.items()}
    return None if numbers["step"] is None or numbers["seconds"] is None else numbers


def _nemo_fields(numbers: Mapping[str, Numbers]) -> Mapping[str, Numbers]:
    """Make the rate from the batch, or from the samples of the run so far."""
    # As in ``Derived``
    import numpy as np

    # A bar prints it with decimals.
    step, seconds = numbers["step"] // 1, numbers["seconds"]
    fields = {"step": step, "seconds": seconds, "is_record": (step >= 0) & (seconds > 0)}
    if "loss" in numbers:
        fields["loss"] = numbers["loss"]
    batch = numbers.get("batch")
    if batch is None and "samples" in numbers:
        samples = numbers["samples"]
        # Before the step or after it, by the version; neither where the batch grew.
        before = np.where(
            samples % np.maximum(step, 1) == 0, samples / np.maximum(step, 1), np.nan
        )
        batch = np.where(samples % (step + 1) == 0, samples / (step + 1), before)
    if batch is not None:
        fields |= {"rate": np.divide(batch, seconds), "work": batch}
    return fields


_COMPOSER_BATCH: Final = re.compile(rb"\[batch=(?P<step>\d{1,15})/(?P<total>\d{1,15})\]")
_COMPOSER_STEPS: Final = (
    re.compile(
        rb"\[epoch=(?P<epoch>\d{1,9})\]\[batch=(?P<step>\d{1,15})/(?P<epoch_steps>\d{1,15})\]"
    ),
    _COMPOSER_BATCH,
)
#: Batches before this one: where a run is as long as so many tokens or samples, the line before
#: has those, ``[token=8388608/25769803776]:``.
_COMPOSER_TIME: Final = Field(rb"\bTrain time/batch: ")
_COMPOSER_PARTS: Final[dict[str, Any]] = {
    "loss": Loss(rb"\bTrain loss/train/total: "),
    "tflops": Field(rb"\bTrain throughput/device/flops_per_sec: ", per=1e12),
    "mfu": Field(rb"\bTrain throughput/device/mfu: "),
}
_COMPOSER_ANCHORS: Final = (
    b"[batch=",
    b"Train loss/train/total: ",
    b"Train throughput/",
)

_nanogpt_line = parser(
    re.compile(rb"\biter (?P<step>\d{1,15}): loss [^,\n]{1,32}, time "),
    required={"seconds"},
    seconds=Field(rb", time ", rb"ms\b", per=1000),
    loss=Loss(rb": loss "),
    mfu=Field(rb", mfu ", rb"%", per=100),
)
_NANOGPT_EVALUATION: Final = re.compile(rb"\bstep \d{1,15}: train loss [^,\n]{1,32}, val loss ")


def _nanogpt(line: bytes) -> LogRecord | None:
    """Read a record, or that the model was evaluated, whose time is in the next print."""
    if _NANOGPT_EVALUATION.search(line):
        return LogRecord(step=-1, aside=1)
    return _nanogpt_line(line)


_litgpt_line = parser(
    re.compile(rb"\biter (?P<step>\d{1,15}) step \d{1,15}"),
    required={"seconds"},
    seconds=Field(rb"\biter time: ", rb" ?ms\b", per=1000),
    loss=Loss(rb"\bloss(?: train:)? "),
)
_LITGPT_UPDATES: Final = Field(rb"\biter \d{1,15} step ")


def _litgpt_numbers(line: bytes) -> Event | None:
    record, updates = _litgpt_line(line), _LITGPT_UPDATES.whole(line)
    if record is None or updates is None:
        return None
    return {
        "step": record.step,
        "updates": updates,
        "seconds": record.seconds,
        "loss": record.loss,
    }


class _LitGPT:
    """Makes the records of one log: one micro batch of several is not a sample of them.

    Where gradients are accumulated, prints that are some micro batches apart are all of those that
    update, or of none. Their time is 0, which is no measurement.
    """

    def __init__(self) -> None:
        # As in ``Derived``
        from pytest_dlperf.measure.logs.events import Latest

        self._step, self._follows = Latest(), Latest()

    def __call__(self, prints: Mapping[str, Numbers]) -> Mapping[str, Numbers]:
        """Take in prints; return the fields of their records."""
        import numpy as np

        step = prints["step"]
        before = self._step.number_before(step)
        # Ranks print a step again.
        follows = self._follows.number_at(step == before + 1, step != before)
        is_sample = (follows > 0) | (prints["updates"] >= step)
        seconds = np.where(is_sample, prints["seconds"], 0.0)
        return {"step": step, "seconds": seconds, "loss": prints["loss"]}


def _litgpt() -> InOrder:
    """Return the parser of one log."""
    return InOrder(_litgpt_numbers, _LitGPT())


FORMATS: Final = built_in(
    # nanochat: ``scripts/base_train.py`` (github.com/karpathy/nanochat), and build-nanogpt's
    # ``train_gpt2.py`` before it: tokens of all processes over the time of the printed step.
    Format(
        name="nanochat",
        framework="torch",
        scope="global",
        averaging="iteration",
        unit="tokens",
        counter="global",
        anchors=(b"tok/sec:",),
        parse=behind_launcher(
            parser(
                Field(rb"^\s{0,8}step {1,8}"),
                required={"rate"},
                rate=Field(rb"\btok/sec: {0,8}"),
                seconds=Field(rb"\bdt: {0,8}", rb"ms\b", per=1000),
                loss=Loss(rb"\bloss: {0,8}"),
                grad_norm=Loss(rb"\bnorm: {0,8}"),
                mfu=Field(rb"\bmfu: {0,8}", per=100),
            )
        ),
    ),
    # nanoGPT: ``train.py`` (github.com/karpathy/nanoGPT). Milliseconds of the printed iteration of
    # all processes; an evaluation before it is in them. ``tokens per iteration will be: 16,384``
    # at the start is its work.
    Format(
        name="nanogpt",
        framework="torch",
        scope="process",
        averaging="iteration",
        unit="tokens",
        counter="global",
        anchors=(b"ms", b", val loss "),
        parse=_nanogpt,
        batch_of="global",
    ),
    # modded-nanogpt: ``train_gpt.py`` (github.com/KellerJordan/modded-nanogpt). ``train_time``
    # runs on with training alone; in some versions it begins anew at the tenth step.
    Format(
        name="modded-nanogpt",
        framework="torch",
        scope="process",
        averaging="window",
        unit="samples",
        first_step=1,
        counter="global",
        anchors=(b" train_time:",),
        parse=parser(
            re.compile(rb"\bstep:(?P<step>\d{1,15})/(?P<total>\d{1,15}) "),
            excluded=(b"val_loss:",),
            required={"elapsed_s"},
            elapsed_s=Either(
                Field(rb"\btrain_time:", rb"ms\b", per=1000), Field(rb"\btrain_time:", rb"s\b")
            ),
            loss=Loss(rb"\btrain_loss:"),
        ),
        cumulative=True,
        batch_of="global",
    ),
    # llm.c: ``train_gpt2.cu`` and ``train_gpt2.py`` (github.com/karpathy/llm.c). The rate is a
    # mean of all processes that forgets; the milliseconds are those of the printed step.
    Format(
        name="llm.c",
        scope="global",
        averaging="iteration",
        unit="tokens",
        first_step=1,
        counter="global",
        anchors=(b" tok/s",),
        rate_keeps=0.95,
        parse=parser(
            re.compile(rb"\bstep {1,12}(?P<step>\d{1,15})/(?P<total>\d{1,15}) \|"),
            required={"rate"},
            rate=Field(rb"\| {1,8}", rb" tok/s\b"),
            seconds=Field(rb"[|(] {0,8}", rb" ms \|", per=1000),
            loss=Loss(rb"\bloss {1,8}"),
            grad_norm=Loss(rb"\bnorm {1,8}"),
            mfu=Field(rb"\| {1,8}", rb"% (?:bf16|fp16|fp32|tf32) MFU", per=100),
        ),
    ),
    # MaxText: ``metric_logger.py`` (github.com/AI-Hypercomputer/maxtext). The first steps are
    # launches alone, which return at once.
    Format(
        name="maxtext",
        framework="jax",
        scope="device",
        averaging="iteration",
        unit="tokens",
        counter="global",
        anchors=(b"completed step: ",),
        parse=parser(
            Field(rb"\bcompleted step: "),
            required={"seconds"},
            rate=Field(rb"\bTokens/s/device: "),
            seconds=Field(rb", seconds: "),
            loss=Loss(rb", loss: "),
            grad_norm=Loss(rb", grad_norm: "),
            tflops=Field(rb"\bTFLOP/s/device: "),
        ),
    ),
    # NeMo 2: ``megatron_progress_printer.py`` of ``nemo/lightning/pytorch/callbacks``
    # (github.com/NVIDIA-NeMo/NeMo), and Lightning's bar with the same numbers behind it.
    # Seconds of the printed step.
    Format(
        name="nemo",
        framework="torch",
        scope="global",
        averaging="iteration",
        unit="samples",
        counter="global",
        anchors=(b"train_step_timing in s",),
        parse=Derived(_nemo_numbers, _nemo_fields),
    ),
    # OLMo: ``log_metrics_to_console`` of ``olmo/train.py`` (github.com/allenai/OLMo), and
    # OLMo-core's ``console_logger.py``: a line of the step, then one of each number. Rates of a
    # device, a mean of the last steps.
    Format(
        name="olmo",
        framework="torch",
        scope="device",
        averaging="window",
        unit="tokens",
        first_step=1,
        counter="global",
        anchors=(b"[step=", b"throughput/device/", b"train/C", b"optim/total", b"Peak GPU Memory"),
        parse=behind_launcher(
            parser(
                re.compile(rb"\[step=(?P<step>\d{1,15})/(?P<total>\d{1,15})[,\]]"),
                alone={"rate", "loss", "grad_norm", "memory_bytes"},
                rate=Field(rb"^\s{1,16}throughput/device/(?:tokens_per_second|TPS)="),
                loss=Loss(rb"^\s{1,16}train/(?:CrossEntropyLoss|CE loss)="),
                grad_norm=Loss(rb"^\s{1,16}optim/total[_ ]grad[_ ]norm="),
                memory_bytes=Field(rb"^\s{1,16}System/Peak GPU Memory \(MB\)=", per=1e-6),
            )
        ),
        several_lines=True,
    ),
    # Composer, and llm-foundry by it: ``composer/loggers/console_logger.py`` with the rates of
    # ``composer/callbacks/speed_monitor.py`` (github.com/mosaicml/composer), of all devices, a
    # mean of the last batches.
    Format(
        name="composer",
        framework="torch",
        scope="global",
        averaging="window",
        unit="tokens",
        first_step=1,
        anchors=_COMPOSER_ANCHORS,
        parse=parser(
            *_COMPOSER_STEPS,
            excluded=(b"[Eval batch=",),
            alone={"rate", "loss", "tflops", "mfu"},
            rate=Field(rb"\bTrain throughput/tokens_per_sec: "),
            **_COMPOSER_PARTS,
        ),
        several_lines=True,
    ),
    Format(
        name="composer-samples",
        framework="torch",
        scope="global",
        averaging="window",
        unit="samples",
        first_step=1,
        anchors=_COMPOSER_ANCHORS,
        parse=parser(
            *_COMPOSER_STEPS,
            excluded=(b"[Eval batch=",),
            alone={"rate", "loss", "tflops", "mfu"},
            rate=Field(rb"\bTrain throughput/samples_per_sec: "),
            **_COMPOSER_PARTS,
        ),
        several_lines=True,
    ),
    *(
        Format(
            name=f"composer-{name}",
            framework="torch",
            scope="global",
            averaging="window",
            unit=unit,
            counter="global",
            anchors=(b"Train time/batch: ", *_COMPOSER_ANCHORS[1:]),
            parse=parser(
                _COMPOSER_TIME,
                excluded=(b"[Eval batch=",),
                alone={"rate", "loss", "tflops", "mfu"},
                rate=Field(rb"\bTrain throughput/" + unit.encode() + rb"_per_sec: "),
                **_COMPOSER_PARTS,
            ),
            several_lines=True,
        )
        for name, unit in (("time", "tokens"), ("time-samples", "samples"))
    ),
    # LitGPT: ``pretrain.py`` and ``finetune/`` (github.com/Lightning-AI/litgpt). Milliseconds of
    # the printed micro batch of each device, of which ``step`` counts the updates.
    Format(
        name="litgpt",
        framework="torch",
        scope="process",
        averaging="iteration",
        unit="samples",
        first_step=1,
        counter="global",
        anchors=(b"iter time: ",),
        parse=_litgpt_line,
        begin=_litgpt,
        no_time="prints are some micro batches apart, and each has the time of its own alone: "
        "that of an update, or of none; print every one, or stamp the lines and give "
        r"--pattern='iter (?P<step>\d+)'",
    ),
    # InternEvo and InternLM: ``record_current_batch_training_metrics``
    # (github.com/InternLM/InternEvo). Tokens of the printed step over its time and all devices.
    Format(
        name="internevo",
        framework="torch",
        scope="device",
        averaging="iteration",
        unit="tokens",
        counter="global",
        anchors=(b"tgs (tokens/gpu/second)=",),
        parse=parser(
            Field(rb"\bstep="),
            required={"rate"},
            rate=Field(rb"\btgs \(tokens/gpu/second\)="),
            loss=Loss(rb"\bloss="),
            grad_norm=Loss(rb"\bgrad_norm=(?:\{'[^'\n]{1,40}': )?"),
            tflops=Field(rb"\btflops="),
        ),
    ),
    # fairseq: ``train_inner`` of ``fairseq_cli/train.py`` by ``logging/progress_bar.py``
    # (github.com/facebookresearch/fairseq), as text, as a bar and as JSON. Tokens of all workers
    # since the last print. Before 0.10 lines had ``oom=``, and a mean of the epoch.
    Format(
        name="fairseq",
        framework="torch",
        scope="global",
        averaging="window",
        unit="tokens",
        first_step=1,
        counter="global",
        anchors=(b"wps",),
        parse=parser(
            Field(rb"\bnum_updates(?:=|\": \")"),
            excluded=(b"oom=",),
            required={"rate"},
            rate=Field(rb"\bwps(?:=|\": \")"),
            work=Field(rb"\bwpb(?:=|\": \")"),
            loss=Loss(rb"\bloss(?:=|\": \")"),
            grad_norm=Loss(rb"\bgnorm(?:=|\": \")"),
        ),
    ),
)
