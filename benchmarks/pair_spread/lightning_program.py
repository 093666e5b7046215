"""A program of Lightning's Trainer."""

import logging
import sys

import lightning
import torch
from amount import STEP

from pytest_dlperf.mark.lightning import StepCallback

torch.set_num_threads(1)
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(6)])

    def training_step(self, batch, index):
        for _ in range(STEP):
            batch @ batch.T
        return self.layers(batch).pow(2).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-3)


loader = torch.utils.data.DataLoader(torch.randn(64 * int(sys.argv[1]), 256), batch_size=64)
lightning.Trainer(
    max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False,
    enable_progress_bar=False, callbacks=[StepCallback()],
).fit(Net(), loader)  # fmt: skip
