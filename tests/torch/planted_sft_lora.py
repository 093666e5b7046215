"""Two ranks of LoRA fine-tuning, right and with faults, forked by one process.

Argument: a file with a list of runs: folder, fault, the marks' settings, the program's words.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch
from peft import get_peft_model
from transformers import LlamaForCausalLM, TrainingArguments

from perf_tests.sft_lora import train as sft_lora
from pytest_dlperf.core.wire import MARK_VARIABLE
from tests.helpers import forked_ranks
from tests.helpers.fault_in_environment import planted


def main() -> None:
    """Train as the program does, with the fault of the environment."""
    fault = planted(2)
    if fault == "learning-rate-0":
        sft_lora.TrainingArguments = lambda **named: TrainingArguments(
            **{**named, "learning_rate": 0.0}
        )
    if fault == "wrong-dtype":
        sft_lora.TrainingArguments = lambda **named: TrainingArguments(**{**named, "bf16": True})
    if fault == "shuffled-labels":
        pad = sft_lora.padded

        def shuffled(answers):
            batch = pad(answers)
            return {**batch, "labels": batch["labels"][torch.randperm(len(answers))]}

        sft_lora.padded = shuffled
    if fault == "not-averaged":
        sft_lora.get_peft_model = lambda *given: without_averaging(get_peft_model(*given))
    sft_lora.main()


def without_averaging(model):
    """Return the model, to whose parameters DistributedDataParallel does nothing but one."""
    names = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    model._ddp_params_and_buffers_to_ignore = names[1:]
    return model


if __name__ == "__main__":
    torch.set_num_threads(1)
    # What a training imports late
    import torch._dynamo
    import torch.utils.flop_counter

    assert LlamaForCausalLM is not None
    forked_ranks.one_rank = main
    for folder, fault, settings, words in json.loads(Path(sys.argv[1]).read_text("utf-8")):
        os.environ[MARK_VARIABLE] = settings
        forked_ranks.train("torch", Path(folder), fault, 2, words)
