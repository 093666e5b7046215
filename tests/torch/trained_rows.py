"""A program: trains with a trainer as its first word says, once for each further word, in forks.

Each fork marks its steps into a folder of its name, and writes there how many rows and tokens its
model was given in training mode.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

from pytest_dlperf.core.wire import MarkSettings

STEPS = 12
SEEN = [0, 0]
torch.set_num_threads(1)


class Rows(Dataset):
    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        # Of other lengths: the last dimension of a batch is the longest of it
        return {"x": torch.full((4 + index % 3,), 1.0), "labels": torch.tensor(float(index % 2))}


class Endless(IterableDataset):
    def __iter__(self) -> Any:
        return iter([Rows(9)[index] for index in range(9)])


def padded(rows: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    inputs = nn.utils.rnn.pad_sequence([row["x"] for row in rows], batch_first=True)
    return {"x": inputs, "labels": torch.stack([row["labels"] for row in rows])}


def packed(rows: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    labels = torch.stack([row["labels"] for row in rows])
    return {"x": torch.cat([row["x"] for row in rows])[None], "labels": labels.mean()[None]}


class Net(nn.Module):
    """A model whose layer is computed again in the backward, as where activations are dropped."""

    def __init__(self, calls: int = 1, most: int = 99) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 1)
        self.calls, self.most = calls, most

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        if len(x) > self.most:
            raise torch.OutOfMemoryError("CUDA out of memory. (not really)")
        if self.training:
            SEEN[0] += len(x)
            SEEN[1] += int((x != 0).sum())
        total = torch.utils.checkpoint.checkpoint(
            self.layer, x.mean(1, keepdim=True), use_reentrant=False
        )
        for _ in range(self.calls - 1):
            total = total + self.layer(x.mean(1, keepdim=True))
        return {"loss": (total.squeeze(1) - labels).square().mean(), "logits": total}


def huggingface(name: str, folder: Path) -> None:
    from transformers import Trainer, TrainingArguments

    from pytest_dlperf.mark.huggingface import StepCallback

    def train(
        size: int = 9, *, callbacks: Any = (), net: Any = None, data: Any = None, **given: Any
    ) -> None:
        arguments = TrainingArguments(
            **{
                "output_dir": str(folder / "out"), "max_steps": STEPS, "logging_steps": 3,
                "per_device_train_batch_size": 4, "report_to": [], "save_strategy": "no",
                "disable_tqdm": True, "use_cpu": True, "dataloader_pin_memory": False,
                "remove_unused_columns": False, **given,
            }
        )  # fmt: skip
        trainer = Trainer(
            net or Net(),
            arguments,
            data_collator=collate,
            train_dataset=data or Rows(size),
            eval_dataset=Rows(5),
            callbacks=list(callbacks) or [StepCallback()],
        )
        trainer.train()

    def tokens(batch: Any) -> torch.Tensor:
        return (batch["x"] != 0).sum()

    collate = packed if name.startswith("packed") else padded
    programs: dict[str, Callable[[], None]] = {
        "plain": lambda: train(400),
        "last_batch": train,
        "last_accumulation": lambda: train(20, gradient_accumulation_steps=4),
        "both": lambda: train(21, gradient_accumulation_steps=4),
        "lowered": lambda: train(9, net=Net(most=2), auto_find_batch_size=True),
        "called_twice": lambda: train(net=Net(calls=2)),
        "workers": lambda: train(dataloader_num_workers=1),
        "iterable": lambda: train(data=Endless()),
        "evaluates": lambda: train(
            eval_strategy="steps", eval_steps=2, save_strategy="steps", save_steps=4
        ),
        "epochs": lambda: train(eval_strategy="epoch", save_strategy="epoch"),
        "function": lambda: train(callbacks=[StepCallback(work=tokens)]),
        "constant": lambda: train(400, callbacks=[StepCallback(work=20)]),
        "constant_in_part": lambda: train(callbacks=[StepCallback(work=20)]),
        "packed": lambda: train(400),
        "packed_constant": lambda: train(400, callbacks=[StepCallback(work=20)]),
        "packed_in_part": lambda: train(
            20, gradient_accumulation_steps=4, callbacks=[StepCallback(work=20)]
        ),
        "two_callbacks": lambda: train(callbacks=[StepCallback(), StepCallback()]),
    }
    programs[name]()


def lightning(name: str, folder: Path) -> None:
    import lightning as pl

    from pytest_dlperf.mark.lightning import StepCallback

    class Module(pl.LightningModule):
        def __init__(self, calls: int = 1) -> None:
            super().__init__()
            self.net = Net(calls)

        def training_step(self, batch: Any, index: int) -> Any:
            return self.net(**batch)["loss"]

        def validation_step(self, batch: Any, index: int) -> None:
            self.net(**batch)

        def on_train_batch_start(self, batch: Any, index: int) -> int | None:
            return -1 if name == "skips" and index == 2 else None

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.01)

    def train(size: int = 9, *, callback: Any = None, **given: Any) -> None:
        loader = DataLoader(Rows(size), batch_size=4, collate_fn=collate)
        trainer = pl.Trainer(
            **{
                "max_steps": STEPS, "accelerator": "cpu", "devices": 1, "logger": False,
                "enable_checkpointing": False, "enable_progress_bar": False,
                "enable_model_summary": False, "limit_val_batches": 0,
                "default_root_dir": str(folder), "callbacks": [callback or StepCallback()],
                **given,
            }
        )  # fmt: skip
        trainer.fit(Module(), loader, DataLoader(Rows(5), batch_size=4, collate_fn=padded))

    def tokens(batch: Any) -> torch.Tensor:
        return (batch["x"] != 0).sum()

    collate = packed if name.startswith("packed") else padded
    programs: dict[str, Callable[[], None]] = {
        "plain": lambda: train(400),
        "last_batch": train,
        "skips": train,
        "accumulates": lambda: train(accumulate_grad_batches=2),
        "evaluates": lambda: train(limit_val_batches=1.0, val_check_interval=2),
        "function": lambda: train(callback=StepCallback(work=tokens)),
        "constant_in_part": lambda: train(callback=StepCallback(work=20)),
        "packed": lambda: train(400),
    }
    programs[name]()


def main() -> None:
    trainer, root, *names = sys.argv[1:]
    # Once for all forks
    if trainer == "huggingface":
        import pytest_dlperf.mark.huggingface
    else:
        import pytest_dlperf.mark.lightning  # noqa: F401
    for name in names:
        folder = Path(root) / name
        folder.mkdir()
        if os.fork():
            os.wait()
            continue
        tokens = name.startswith(("function", "constant", "packed_"))
        os.environ["DLPERF_MARK"] = MarkSettings(
            records=str(folder),
            iterations=STEPS,
            warmup=2,
            work=None if tokens else 4,
            world_size=1,
            place=("RANK", "LOCAL_RANK", "WORLD_SIZE"),
            framework="torch",
            unit="tokens" if tokens else "samples",
            batch_size_per_device=4,
        ).to_json()
        {"huggingface": huggingface, "lightning": lightning}[trainer](name, folder)
        (folder / "seen.json").write_text(json.dumps(SEEN), encoding="utf-8")
        os._exit(0)


if __name__ == "__main__":
    main()
