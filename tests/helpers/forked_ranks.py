"""The ranks of each suite's training, right and with faults, forked by one process.

A framework is imported once, so that a training costs its steps alone: a launch of each would cost
ten times as much. Arguments: the framework, and a file with a list of runs: folder, fault, number
of ranks, and the words of a rank's command line.
"""

from __future__ import annotations

import importlib
import json
import os
import socket
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path

from pytest_dlperf.worker.__main__ import main as one_rank
from tests.helpers.fault_in_environment import VARIABLE

#: What each rank would import late, by framework.
IMPORTED: Mapping[str, tuple[str, ...]] = {
    "torch": ("torch._dynamo", "torch.utils.flop_counter"),
    "paddle": ("paddle.distributed",),
    "jax": ("jax.experimental.multihost_utils",),
}


def of_torch(rank: int, ranks: int, ports: list[int]) -> dict[str, str]:
    """Return the place of a rank, as torchrun says it."""
    return {
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(ports[0]), "RANK": str(rank),
        "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks),
    }  # fmt: skip


def of_paddle(rank: int, ranks: int, ports: list[int]) -> dict[str, str]:
    """Return the place of a rank, as Paddle's launcher says it."""
    addresses = [f"127.0.0.1:{port}" for port in ports]
    return {
        "PADDLE_MASTER": addresses[0], "PADDLE_TRAINER_ID": str(rank),
        "PADDLE_RANK_IN_NODE": str(rank), "PADDLE_TRAINERS_NUM": str(ranks),
        "PADDLE_TRAINER_ENDPOINTS": ",".join(addresses[1:]),
        "PADDLE_CURRENT_ENDPOINT": addresses[1 + rank], "PADDLE_DISTRI_BACKEND": "gloo",
    }  # fmt: skip


def of_jax(rank: int, ranks: int, ports: list[int]) -> dict[str, str]:
    """Return the place of a rank, as ``jax-processes`` says it."""
    return {
        "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks),
        "JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{ports[0]}",
    }  # fmt: skip


PLACES: Mapping[str, Callable[[int, int, list[int]], dict[str, str]]] = {
    "torch": of_torch,
    "paddle": of_paddle,
    "jax": of_jax,
}


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens at."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def train(framework: str, folder: Path, fault: str, ranks: int, words: list[str]) -> None:
    """Fork the ranks of one training, and wait for them."""
    folder.mkdir()
    ports = free_ports(1 + ranks)
    os.environ[VARIABLE] = fault
    processes = []
    for rank in range(ranks):
        processes.append(os.fork())
        if processes[-1] == 0:
            os.environ.update(PLACES[framework](rank, ranks, ports))
            become(rank, folder, words)
    for process in processes:
        os.waitpid(process, 0)


def become(rank: int, folder: Path, words: list[str]) -> None:
    """Be one rank, as the worker's own start is, and end this process."""
    code = 1
    try:
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
    framework = sys.argv[1]
    if framework == "torch":
        import torch

        torch.set_num_threads(1)
    for module in (*IMPORTED[framework], "planted"):
        importlib.import_module(module)
    importlib.import_module(f"pytest_dlperf.worker.frameworks.{framework}.framework")

    for folder, fault, ranks, words in json.loads(Path(sys.argv[2]).read_text(encoding="utf-8")):
        train(framework, Path(folder), fault, ranks, words)
