"""A program of Hugging Face's Trainer."""

import sys

import torch
from amount import STEP
from transformers import Trainer, TrainingArguments

from pytest_dlperf.mark.huggingface import StepCallback

torch.set_num_threads(1)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(6)])

    def forward(self, x):
        for _ in range(STEP):
            x @ x.T
        return {"loss": self.layers(x).pow(2).mean()}


data = [{"x": torch.randn(256)} for _ in range(64)]
arguments = TrainingArguments(
    output_dir="out", max_steps=int(sys.argv[1]), per_device_train_batch_size=64, use_cpu=True,
    save_strategy="no", report_to=[], logging_steps=50, disable_tqdm=True,
)  # fmt: skip
Trainer(Net(), arguments, train_dataset=data, callbacks=[StepCallback()]).train()
