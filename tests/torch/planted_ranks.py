"""Two ranks of each suite's training, right and with faults, forked by one process.

PyTorch is imported once, so that a training costs its steps alone: a launch of each would cost
ten times as much. Arguments: a file with a list of folders, each with its fault and the words of
a rank's command line.
"""

from __future__ import annotations

import importlib
import json
import os
import socket
import sys
import traceback
from pathlib import Path

import torch

from pytest_dlperf.worker.__main__ import main as one_rank
from tests.helpers.fault_in_environment import VARIABLE

RANKS = 2


def train(folder: Path, fault: str, words: list[str]) -> None:
    """Fork the ranks of one training, and wait for them."""
    folder.mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ.update(
        {
            VARIABLE: fault, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
            "WORLD_SIZE": str(RANKS), "LOCAL_WORLD_SIZE": str(RANKS),
        }
    )  # fmt: skip
    ranks = []
    for rank in range(RANKS):
        ranks.append(os.fork())
        if ranks[-1] == 0:
            become(rank, folder, words)
    for process in ranks:
        os.waitpid(process, 0)


def become(rank: int, folder: Path, words: list[str]) -> None:
    """Be one rank, as the worker's own start is, and end this process."""
    code = 1
    try:
        os.environ.update({"RANK": str(rank), "LOCAL_RANK": str(rank)})
        output = os.open(folder / f"output{rank}.log", os.O_WRONLY | os.O_CREAT)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.argv = ["worker", *words]
        one_rank()
        code = 0
    except BaseException:  # noqa: BLE001  # nothing of this process may go on in its parent's place
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    torch.set_num_threads(1)
    # What each rank would import: the suites, and what PyTorch imports late
    for module in ("torch._dynamo", "torch.utils.flop_counter", "tests.torch.planted"):
        importlib.import_module(module)
    importlib.import_module("pytest_dlperf.worker.frameworks.torch.framework")

    for folder, fault, words in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")):
        train(Path(folder), fault, words)
