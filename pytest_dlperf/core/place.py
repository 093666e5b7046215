"""Where ranks start, by the command line: interpreter, prefix command, this node's part."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Final

from pytest_dlperf.core.errors import UsageError

#: ``NAME=VALUE`` as a separate word, after ``--env=`` or right after ``-e``.
_ASSIGNMENT: Final = re.compile(
    r"(--[a-z-]*env(?:ironment)?=|-e)?([A-Za-z_][A-Za-z0-9_]*)=(.+)", re.S
)
#: Prefixes of variables that configure a training and are never secret.
_NEVER_SECRET: Final = ("CUDA_", "FLAGS_", "KMP_", "MKL_", "OMP_", "TF_XLA_")
MASK: Final = "…"
#: Prefix of the name of a folder that several nodes share.
SHARED: Final = "nodes-"


@dataclass(frozen=True, kw_only=True, slots=True)
class NodePart:
    """The part of a multi-node training that this node starts (``--dlperf-node-rank``)."""

    node_rank: int
    master_addr: str
    master_port: int

    @classmethod
    def parse(cls, node_rank: str | None, master: str | None) -> NodePart | None:
        """Return the part that the two options name, None for neither; raise ``UsageError``."""
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
        """A name that is the same on all nodes of the training, usable for a folder."""
        return f"{SHARED}{self.master_addr.strip('[]').replace(':', '.')}-{self.master_port}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """The words before a launcher's command, and the interpreter of the ranks."""

    python: str
    #: The command before the launcher (of a container, numactl ...), with placeholders filled in.
    prefix: tuple[str, ...] = ()
    #: The prefix for people and files: without the values of variables that it sets, and without
    #: this session's folders, so that two can be compared.
    prefix_text: str = ""
    #: Whether the interpreter differs from pytest's, or may differ: only a launch shows it then.
    foreign: bool = False
    node_part: NodePart | None = None

    @classmethod
    def parse(
        cls,
        *,
        prefix: str | None,
        python: str | None,
        own_python: str,
        folders: dict[str, str],
        node_part: NodePart | None = None,
    ) -> Place:
        """Return the place that the options name; raise ``UsageError`` if they are invalid.

        ``folders`` are the placeholders: ``{workdir}`` and ``{rootdir}``.
        """
        try:
            words = shlex.split(prefix or "")
            text = masked(prefix or "")
        except ValueError as error:
            # The prefix is not repeated: it may set secrets, which cannot be recognised here.
            raise UsageError(f"--dlperf-prefix: {error}; quote it as in a shell") from error
        for name, folder in folders.items():
            # Not str.format: a container's options may contain braces
            words = [word.replace(f"{{{name}}}", folder) for word in words]
        chosen = python or ("python3" if words else own_python)
        return cls(
            python=chosen,
            prefix=tuple(words),
            prefix_text=text,
            foreign=bool(words) or chosen != own_python,
            node_part=node_part,
        )

    @property
    def words(self) -> str:
        """Return where ranks start, for people."""
        if self.prefix:
            return f"behind the prefix {self.prefix_text!r} with {self.python}"
        return f"with {self.python}"


def masked(command: str) -> str:
    """Return a command for people, with the values of the variables that it sets masked.

    It is unchanged where it sets none. Raises ``ValueError`` for an unclosed quotation.
    """
    words = shlex.split(command)
    shown = [_masked_word(word) for word in words]
    return command.strip() if shown == [shlex.quote(w) for w in words] else " ".join(shown)


def _masked_word(word: str) -> str:
    match = _ASSIGNMENT.fullmatch(word)
    if match is None or match[2].startswith(_NEVER_SECRET):
        return shlex.quote(word)
    return f"{match[1] or ''}{match[2]}={MASK}"
