"""Takes the values of environment variables out of a command that people and files get to see."""

from __future__ import annotations

import re
import shlex
from typing import Final

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
