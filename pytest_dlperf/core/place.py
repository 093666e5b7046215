"""Where ranks start, as the command line says: interpreter, prefix, and this node's share."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Final

from pytest_dlperf.core.errors import UsageError

#: ``NAME=VALUE`` as a word of its own, after ``--env=`` or right after ``-e``.
_ASSIGNMENT: Final = re.compile(
    r"(--[a-z-]*env(?:ironment)?=|-e)?([A-Za-z_][A-Za-z0-9_]*)=(.+)", re.S
)
#: Begin the names of variables that set how a training runs, and keep no secret.
_TELLING: Final = ("CUDA_", "FLAGS_", "KMP_", "MKL_", "OMP_", "TF_XLA_")
MASK: Final = "…"


def masked(command: str) -> str:
    """Return a command for people, without the values of the variables that it sets.

    As it was given where it sets none. Raises ``ValueError`` for a quotation without end.
    """
    words = shlex.split(command)
    shown = [_masked_word(word) for word in words]
    return command.strip() if shown == [shlex.quote(w) for w in words] else " ".join(shown)


def _masked_word(word: str) -> str:
    match = _ASSIGNMENT.fullmatch(word)
    if match is None or match[2].startswith(_TELLING):
        return shlex.quote(word)
    return f"{match[1] or ''}{match[2]}={MASK}"


#: Begins the name of a folder that several nodes share.
SHARED: Final = "nodes-"


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """One node's part of a training on several, started by hand on each of them."""

    node_rank: int
    master_addr: str
    master_port: int

    @classmethod
    def parse(cls, node_rank: str | None, master: str | None) -> Share | None:
        """Return the share that the two options name, None for neither; raise ``UsageError``."""
        if node_rank is None and master is None:
            return None
        if node_rank is None or master is None:
            raise UsageError(
                "--dlperf-node-rank=R and --dlperf-master=ADDR:PORT belong together: on each "
                "node its own number, on all of them the address of node 0"
            )
        if not node_rank.strip().isdecimal():
            raise UsageError(
                f"--dlperf-node-rank={node_rank}: give this node's number, counted from 0"
            )
        address, _, port = master.rpartition(":")
        if not address or not port.isdecimal() or not 0 < int(port) < 65536:
            raise UsageError(
                f"--dlperf-master={master}: give node 0's address and a free port of it, for "
                "instance 10.11.0.2:29500"
            )
        return cls(node_rank=int(node_rank), master_addr=address, master_port=int(port))

    @property
    def name(self) -> str:
        """Return what the nodes of one training have in common, fit for a folder."""
        return f"{SHARED}{self.master_addr.strip('[]').replace(':', '.')}-{self.master_port}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """What stands before a launcher's command, and the interpreter of the ranks."""

    python: str
    #: Before the launcher: a container's, numactl's ... command, its placeholders filled in.
    prefix: tuple[str, ...] = ()
    #: The prefix for people and files: without the values of variables that it sets, and without
    #: this session's folders, so that two can be compared.
    prefix_text: str = ""
    #: Whether the interpreter is another than pytest's, or may be: only a launch can tell then.
    foreign: bool = False
    share: Share | None = None

    @classmethod
    def parse(
        cls,
        *,
        prefix: str | None,
        python: str | None,
        own_python: str,
        folders: dict[str, str],
        share: Share | None = None,
    ) -> Place:
        """Return the place that the options name; raise ``UsageError`` for what is no command.

        ``folders`` are the placeholders: ``{workdir}`` and ``{rootdir}``.
        """
        try:
            words = shlex.split(prefix or "")
            text = masked(prefix or "")
        except ValueError as error:
            # Not repeated: it may set variables, whose values cannot be told from the rest.
            raise UsageError(f"--dlperf-prefix: {error}; quote it as in a shell") from error
        for name, folder in folders.items():
            # Not str.format: a container's own options may hold braces
            words = [word.replace(f"{{{name}}}", folder) for word in words]
        chosen = python or ("python3" if words else own_python)
        return cls(
            python=chosen,
            prefix=tuple(words),
            prefix_text=text,
            foreign=bool(words) or chosen != own_python,
            share=share,
        )

    @property
    def words(self) -> str:
        """Return where ranks start, for people."""
        if self.prefix:
            return f"behind the prefix {self.prefix_text!r} with {self.python}"
        return f"with {self.python}"
