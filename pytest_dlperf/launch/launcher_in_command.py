"""Check a launcher inside the user's command: its ranks, nodes and port must fit the case.

Read before a launch, since a log is believed to be of the layout that the case names.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import CaseError


@dataclass(frozen=True, kw_only=True, slots=True)
class _Words:
    """How a launcher's command names what it starts; each with the option's spellings."""

    #: Ranks of all nodes, ranks of one, and nodes.
    ranks: tuple[str, ...] = ()
    ranks_of_node: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    #: Says the ranks of one node as well; where it is not set either, there is one. Empty for a
    #: launcher that then looks at the host, or at a file.
    ranks_variable: str = ""
    port: tuple[str, ...] = ()
    #: Where ranks meet if nothing is said; None if it is a free port.
    default_port: int | None = None
    #: Options by which it finds a free port itself.
    free_port: tuple[str, ...] = ()


_TORCHRUN: Final = _Words(
    ranks_of_node=("--nproc-per-node", "--nproc_per_node"),
    nodes=("--nnodes",),
    ranks_variable="PET_NPROC_PER_NODE",
    port=("--master-port", "--master_port"),
    default_port=29500,
    free_port=("--standalone", "--rdzv-endpoint", "--rdzv_endpoint"),
)
#: By the first words of a command; the options are those of torch 2.13, accelerate 1.15,
#: deepspeed 0.19 and Slurm 22.05.
_LAUNCHERS: Final = {
    ("accelerate", "launch"): _Words(
        ranks=("--num_processes", "--num-processes"),
        nodes=("--num_machines", "--num-machines"),
        port=("--main_process_port", "--main-process-port"),
        default_port=29500,
    ),
    ("deepspeed",): _Words(
        ranks_of_node=("--num_gpus", "--num_accelerators"),
        nodes=("--num_nodes",),
        port=("--master_port",),
        default_port=29500,
    ),
    ("torchrun",): _TORCHRUN,
    ("python", "-m", "torch.distributed.run"): _TORCHRUN,
    ("python", "-m", "torch.distributed.launch"): _TORCHRUN,
    ("srun",): _Words(
        ranks=("--ntasks", "-n"), ranks_of_node=("--ntasks-per-node",), nodes=("--nodes", "-N")
    ),
}


def check_launcher_in_command(case: Case) -> None:
    """Raise ``CaseError`` if a launcher in the command would start something else than ``case``.

    Another number of ranks; the command once a rank, each of which starts all; or ranks that meet
    on a port of this host on which something listens.
    """
    launcher = _launcher_in(case.command_line())
    if launcher is None:
        return
    first, words = launcher
    name, argv = " ".join(first), case.command_line()[len(first) :]
    if case.launcher != "none" and case.ranks > 1:
        raise CaseError(
            f"{name} in the command starts all ranks, and the case's launcher would "
            f"start it {case.ranks} times; say launcher=None",
            subject=case.id,
        )
    for count, options, what in (
        (case.ranks, words.ranks, "ranks"),
        (case.layout.nodes, words.nodes, "nodes"),
        (case.ranks_per_node, words.ranks_of_node, "ranks a node"),
    ):
        number = _value(argv, options)
        if number is None and options == words.ranks_of_node and words.ranks_variable:
            number = os.environ.get(words.ranks_variable, "1")
        if number is not None and number.isdecimal() and int(number) != count:
            raise CaseError(
                f"the command starts {number} {what} ({options[0]}), and {case.layout} "
                f"has {count}; {{world_size}}, {{devices_per_node}} and {{nodes}} in a word of "
                "the command are the layout's numbers",
                subject=case.id,
            )
    _check_port(case, name, words, argv)


def _check_port(case: Case, name: str, words: _Words, argv: Sequence[str]) -> None:
    if case.layout.nodes > 1 or case.ranks == 1 or not words.port:
        return
    if any(word.partition("=")[0] in words.free_port for word in argv):
        return
    said = _value(argv, words.port)
    port = words.default_port if said is None else int(said) if said.isdecimal() else None
    if port and _listens(port):
        default = "" if said else f", which {name} takes where none is named"
        raise CaseError(
            f"something listens on port {port} of this host{default}, so its ranks "
            f"could not meet there; name another one ({words.port[0]}), or let "
            "launcher='torchrun', 'accelerate' or 'deepspeed' find a free one",
            subject=case.id,
        )


def _launcher_in(command: Sequence[str]) -> tuple[tuple[str, ...], _Words] | None:
    if not command:
        return None
    program = command[0].rpartition("/")[2]
    plain = ("python" if re.fullmatch(r"python[\d.]*", program) else program, *command[1:])
    for first, words in _LAUNCHERS.items():
        if plain[: len(first)] == first:
            return first, words
    return None


def _value(argv: Sequence[str], options: Sequence[str]) -> str | None:
    """Return the value of an option, among those before the program that is started."""
    for index, word in enumerate(argv):
        name, _, value = word.partition("=")
        if name in options:
            following = argv[index + 1] if index + 1 < len(argv) else ""
            return value or following
        # As -n4
        if word[:2] in options and word[2:].isdecimal():
            return word[2:]
        if word.endswith(".py"):
            return None
    return None


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0
