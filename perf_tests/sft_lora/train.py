"""Fine-tunes a Llama that is made here with LoRA: Trainer and PEFT, and one callback."""

from __future__ import annotations

import argparse
import tempfile
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from torch.utils.data import DataLoader, Dataset
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

from pytest_dlperf.mark.huggingface import StepCallback

SIZES = {
    # Llama 3.2 1B, by its published config.json.
    "full": {
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 16,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128_256,
        "tie_word_embeddings": True,
    },
    "tiny": {
        "hidden_size": 64,
        "intermediate_size": 192,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 256,
    },
}
SEQUENCE = {"full": 2048, "tiny": 32}
#: Not counted in the loss.
IGNORED = -100


class Answers(Dataset):  # type: ignore[misc]  # torch is Any here
    """Answers of random tokens, of lengths from an eighth of the sequence to all of it.

    Entry ``i`` is the same as entry ``i + size``, and has the length of ``i + batch``: ranks have
    other tokens, as many of them, and the same in each step.
    """

    def __init__(self, batch: int, ranks: int, sequence: int, vocabulary: int) -> None:
        self.lengths = [sequence * (1 + index % 8) // 8 for index in range(batch)]
        made = torch.Generator().manual_seed(1)
        self._tokens = torch.randint(vocabulary, (batch * ranks, sequence), generator=made)

    def __len__(self) -> int:
        # Many steps to an epoch, so that its end is no part of them.
        return 64 * len(self._tokens)

    def __getitem__(self, index: int) -> torch.Tensor:
        length = self.lengths[index % len(self.lengths)]
        return self._tokens[index % len(self._tokens), :length]


def padded(answers: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return a row for each answer, as long as the longest."""
    longest = max(map(len, answers))
    tokens = torch.zeros(len(answers), longest, dtype=torch.long)
    mask = torch.zeros_like(tokens)
    for row, answer in enumerate(answers):
        tokens[row, : len(answer)] = answer
        mask[row, : len(answer)] = 1
    labels = tokens.masked_fill(mask == 0, IGNORED)
    return {"input_ids": tokens, "attention_mask": mask, "labels": labels}


def packed(answers: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the answers one after another in one row; each begins its positions again."""
    tokens = torch.cat(answers).unsqueeze(0)
    positions = torch.cat([torch.arange(len(answer)) for answer in answers]).unsqueeze(0)
    return {"input_ids": tokens, "position_ids": positions, "labels": tokens.clone()}


class InOrder(Trainer):  # type: ignore[misc]
    """A Trainer that reads its samples in order, so that every step has the same work."""

    def get_train_dataloader(self) -> Any:
        """Return the batches of this rank."""
        loader = DataLoader(
            self.train_dataset,
            batch_size=self.args.per_device_train_batch_size,
            collate_fn=self.data_collator,
        )
        return self.accelerator.prepare(loader)


def main() -> None:
    """Read the words of the command, and train."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--batching", choices=["packed", "padded"], default="packed")
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--iterations", type=int, default=150)
    given = parser.parse_args()
    # Nothing is saved, yet the Trainer makes the folder
    with tempfile.TemporaryDirectory() as folder:
        train(given, folder)


def train(given: argparse.Namespace, folder: str) -> None:
    """Train as many steps as the words of the command say."""
    torch.manual_seed(0)
    config = LlamaConfig(**SIZES[given.size])
    adapters = LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")
    model = get_peft_model(LlamaForCausalLM(config), adapters)
    arguments = TrainingArguments(
        output_dir=folder,
        max_steps=given.iterations,
        per_device_train_batch_size=given.batch_size,
        learning_rate=2e-4 if given.size == "full" else 1e-2,
        bf16=given.precision == "bf16",
        use_cpu=not torch.cuda.is_available(),
        ddp_find_unused_parameters=False,
        remove_unused_columns=False,
        logging_steps=10,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
    )
    sequence = SEQUENCE[given.size]
    answers = Answers(given.batch_size, arguments.world_size, sequence, config.vocab_size)
    InOrder(
        model,
        arguments,
        train_dataset=answers,
        data_collator=packed if given.batching == "packed" else padded,
        # The tokens that are trained on: padding is none of them.
        callbacks=[StepCallback(work=sum(answers.lengths), fixed_batch=True)],
    ).train()


if __name__ == "__main__":
    main()
