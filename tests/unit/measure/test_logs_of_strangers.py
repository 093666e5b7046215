"""Logs that others wrote, each with the right answer: a rate, or the code of a refusal.

The answers were worked out by hand from the logs (``INDEX.json`` there says how).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.helpers.extracted import extracted

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[3]
LOGS = Path(os.environ.get("DLPERF_SHARED", ROOT.parent / "shared")) / "logs2"
if not LOGS.is_dir():
    pytest.skip(f"no logs of strangers at {LOGS}", allow_module_level=True)


class Answer(NamedTuple):
    """What a log says: a rate in a unit, or why it says none."""

    rate: float | None = None
    unit: str = ""
    code: str = ""
    #: Another problem that comes with it.
    also: str = ""


NO_RATE: Final = Answer(code="unknown-format")
TOO_FEW: Final = Answer(code="insufficient-data")
NO_SIZES: Final = Answer(code="unknown-scale")
#: For logs of times alone: then the rate is in iterations.
ONE: Final = ("--batch_size_per_device=1", "--world_size=1")

#: Log, options, and the right answer.
ANSWERS: Final[tuple[tuple[str, tuple[str, ...], Answer], ...]] = (
    ("a5_rl_grpo_base.log", (), NO_RATE),
    ("a5_sft.log", (), NO_RATE),
    ("ansh_gpt2.log", (), NO_RATE),
    ("chatglm_trainer_log.jsonl", (), NO_SIZES),
    ("chatglm_trainer_log.jsonl", ONE, Answer(1 / 1.108)),
    ("cnphi_ds_pretrain.log", (), TOO_FEW),
    ("cnphi_sft.log", (), TOO_FEW),
    ("coati_dreambooth.log", (), NO_RATE),
    ("composer_mpt30b.log", (), TOO_FEW),
    ("corn.log", (), NO_RATE),
    ("d2_my_train.txt", (), Answer(code="several-runs")),
    ("ddetr_slurm.out", (), NO_RATE),
    ("detr_logtxt.txt", (), NO_RATE),
    ("ds_1825.log", (), TOO_FEW),
    ("ds_1825.log", ("--skip=0",), Answer(84.0, "samples")),
    ("dschat1.log", (), Answer(171.4, "samples")),
    ("dschat2rm.log", (), Answer(217.9, "samples")),
    ("dschat3.log", (), Answer(16.82, "samples")),
    ("era_gpt2.log", (), NO_RATE),
    ("fairseq_bar.log", (), Answer(18248, "tokens")),
    ("fairseq_hydra.log", (), Answer(54619.9, "tokens")),
    ("icefall.log", (), Answer(18.28, "iterations")),
    ("internevo.log", (), TOO_FEW),
    ("kandc.log", (), NO_RATE),
    ("kospeech.txt", (), NO_SIZES),
    ("kospeech.txt", ONE, Answer(1 / 6.65)),
    ("lf_med_trainer_log.jsonl", (), NO_SIZES),
    ("lf_med_trainer_log.jsonl", ONE, Answer(1 / 3.2)),
    ("litgpt_1110.log", (), NO_SIZES),
    ("litgpt_doc.log", (), NO_SIZES),
    ("llava_sft.log", (), TOO_FEW),
    ("llmc_main.log", (), NO_RATE),
    ("megatron_756.log", (), TOO_FEW),
    ("minimind_grpo.log", (), NO_RATE),
    ("minimind_r1_main.log", (), NO_RATE),
    ("minimind_sft.log", (), NO_RATE),
    ("mlp40_dell_bert.txt", (), Answer(7690, "samples")),
    ("mlp40_dell_unet3d.txt", (), Answer(565, "samples")),
    ("mlp40_giga_sd.txt", (), Answer(1004, "samples")),
    ("mlp40_google_gpt3.txt", (), Answer(86, "samples")),
    ("mlp40_habana_gpt3.txt", (), Answer(174.2, "samples")),
    ("mlp40_habana_lora.txt", (), Answer(0.65, "samples")),
    ("mlp40_juniper_ds_lora.txt", (), Answer(0.541, "samples")),
    ("mlp40_nv_bert.txt", (), TOO_FEW),
    ("mlp40_nv_gpt3.txt", (), Answer(211.5, "samples")),
    ("mlp40_nv_resnet.txt", (), TOO_FEW),
    ("mlp40_nv_resnet.txt", ("--skip=1",), Answer(57265, "samples")),
    ("mlp40_tinycorp_resnet.txt", (), NO_RATE),
    ("mlp51_amd_llama8b.txt", (), Answer(30.66, "samples")),
    ("mlp51_cisco_retinanet.txt", (), Answer(2452, "images")),
    ("mlp51_dell_llama8b.txt", (), Answer(35.6, "samples")),
    ("mlp51_dell_lora2n.txt", (), NO_RATE),
    ("mlp51_dell_retinanet.txt", (), Answer(3914, "images")),
    ("mlp51_dell_rgat.txt", (), Answer(358_118, "samples")),
    ("mlp51_mango_lora.txt", (), Answer(2.11, "samples")),
    ("mlp51_nv_dlrm8.txt", (), TOO_FEW),
    ("mlp51_nv_dlrm8.txt", ("--skip=0",), TOO_FEW),
    ("mlp51_nv_flux16.txt", (), Answer(1107, "samples")),
    ("mlp51_nv_llama8b_72.txt", (), Answer(246, "samples")),
    ("mlp51_nv_lora8.txt", (), Answer(9.54, "samples", also="unstable")),
    ("mlp51_nv_retinanet8.txt", (), TOO_FEW),
    ("mlp51_nv_rgat8.txt", (), TOO_FEW),
    ("mlp51_uf_llama8b.txt", (), Answer(85.0, "samples")),
    ("mlp51_wiwynn_lora.txt", (), Answer(45.6, "samples")),
    ("mmeng_duanbo_scalars.json", (), NO_SIZES),
    ("mnano_2501.txt", (), NO_SIZES),
    ("mnano_2501.txt", ONE, Answer(1 / 0.129912)),
    ("mnano_2602.txt", (), NO_SIZES),
    ("mnano_2602.txt", ONE, Answer(1 / 0.061342)),
    ("moe_sft.log", (), TOO_FEW),
    ("nanochat_sft_run.log", (), Answer(code="loss-not-finite")),
    ("nanogpt_train.txt", (), Answer(29188, "tokens")),
    ("nemo_740.log", (), TOO_FEW),
    ("olmo_1b.log", (), Answer(48876, "tokens/device")),
    ("olmo_nohup.log", (), Answer(74804, "tokens/device")),
    ("olmo_prov.log", (), Answer(50029, "tokens/device")),
    ("olmo_repro.log", (), Answer(47552, "tokens/device")),
    ("olmo_sharp.log", (), TOO_FEW),
    ("openvla_slurm.out", (), NO_RATE),
    ("pct.log", (), NO_RATE),
    ("shikra_finetune.log", (), NO_RATE),
    ("swift_94.log", (), NO_SIZES),
    ("tfslim_2980.log", (), NO_SIZES),
    ("timemixer_88.log", (), NO_SIZES),
    ("timemixer_88.log", ONE, Answer(1 / 1.115)),
    ("titan_1287.log", ("--skip=0",), Answer(5863, "tokens/device")),
    ("titan_1287.log", ("--skip=0", "--world_size=8"), Answer(8 * 5863, "tokens")),
    ("titan_2389.log", (), TOO_FEW),
    ("wind_train.log", (), NO_SIZES),
    ("wizard_qlora.log", (), NO_RATE),
    ("wsdan.log", (), NO_SIZES),
    ("wsdan.log", ("--world_size=1",), Answer(20.6, "images")),
    # Read by a pattern.
    (
        "fairseq_bar.log",
        ("--pattern", r"wps=(?P<rate>[\d.]+).*num_updates=(?P<step>\d+)", "--unit=tokens"),
        Answer(18248, "tokens"),
    ),
    (
        "mnano_2501.txt",
        (
            "--pattern",
            r"^step:(?P<step>\d+)/\d+ (?:train_loss:\S+ )?train_time:\d+ms "
            r"step_avg:(?P<milliseconds>[\d.]+)ms",
            "--scope=process",
            "--averaging=running",
            "--batch_size_per_device=64",
            "--world_size=8",
        ),
        Answer(3941.1, "samples"),
    ),
    (
        "nanogpt_train.txt",
        (
            "--pattern",
            r"iter (?P<step>\d+): loss (?P<loss>\S+), time (?P<milliseconds>[\d.]+)ms",
            "--averaging=iteration",
            "--unit=tokens",
            "--batch_size_per_device=16384",
            "--world_size=1",
        ),
        Answer(29188, "tokens"),
    ),
    ("wind_train.log", ("--batch_size_per_device=32", "--world_size=1"), Answer(32 * 130.3)),
)


def _name(log: str, options: tuple[str, ...]) -> str:
    words = [option.removeprefix("--").partition("=")[0] for option in options]
    return " ".join([log, *(word for word in words if "?P<" not in word)])


def _case(log: str, options: tuple[str, ...], answer: Answer) -> object:
    return pytest.param(log, options, answer, id=_name(log, options))


@pytest.mark.parametrize(("log", "options", "answer"), [_case(*row) for row in ANSWERS])
def test_the_log_of_a_stranger_has_its_answer(
    log: str, options: tuple[str, ...], answer: Answer
) -> None:
    result = extracted(LOGS / log, *options)

    codes = {problem.code for problem in result.problems}
    if answer.rate is None:
        assert result.throughput is None
        assert answer.code in codes
        return
    assert result.throughput == pytest.approx(answer.rate, rel=0.02), result.problems
    assert not answer.unit or result.unit == answer.unit
    assert not answer.also or answer.also in codes
