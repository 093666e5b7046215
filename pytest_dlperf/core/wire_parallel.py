"""How a training is spread over its ranks: which copy or shard the model, and which split it."""

from __future__ import annotations

import re
from typing import NamedTuple

#: Ranks that train on other data: copies of the model, or shards of it.
DATA = ("ddp", "fsdp", "fsdp2", "hsdp", "zero1", "zero2", "zero3")
#: Ranks that share a batch: its layers, its tokens, or the channels of a layer are split.
SPLITS = ("pp", "cp", "tp")
_DEGREE = re.compile(rf"({'|'.join(SPLITS)})([1-9][0-9]{{0,5}})")
_EXAMPLE = "parallel='fsdp2-tp2'"
#: The order of the splits in a text that is an id's word: the fastest first, as in Megatron-LM's
#: order of ranks, ``tp-cp-ep-dp-pp`` (its ``RankGenerator``).
_WRITTEN = ("tp", "cp", "pp")


class Parallel(NamedTuple):
    """The degrees of ``fsdp2-tp2-pp2`` and the like; 1 where a word is missing."""

    #: One of ``DATA``; empty if none is named.
    data: str = ""
    pp: int = 1
    cp: int = 1
    tp: int = 1

    @classmethod
    def parse(cls, text: str) -> Parallel:
        """Return the degrees of ``text``, words with hyphens between; raise ``ValueError``."""
        degrees: dict[str, int] = {}
        data = ""
        for index, word in enumerate(text.split("-") if text else ()):
            match = _DEGREE.fullmatch(word)
            if word in DATA and index == 0:
                data = word
            elif match is not None and match[1] not in degrees and int(match[2]) > 1:
                degrees[match[1]] = int(match[2])
            else:
                raise ValueError(
                    f"parallel {text!r}: {word!r} is not known there; give one of "
                    f"{', '.join(DATA)}, then {', '.join(f'{name}N' for name in SPLITS)}, each "
                    f"once and N above 1, as in {_EXAMPLE}"
                )
        return cls(data=data, **degrees)

    def __str__(self) -> str:
        """Return the one text of these degrees: ``fsdp2-tp2-pp2``, also for ``fsdp2-pp2-tp2``."""
        degrees = ((name, getattr(self, name)) for name in _WRITTEN)
        splits = (f"{name}{degree}" for name, degree in degrees if degree > 1)
        return "-".join(filter(None, (self.data, *splits)))

    @property
    def split(self) -> int:
        """Number of ranks that share a batch: those of one replica."""
        return self.pp * self.cp * self.tp

    def replica(self, rank: int) -> int:
        """Return the number of the replica that a rank belongs to; the mesh is ``dims``."""
        return rank // self.split

    def stage(self, rank: int) -> int:
        """Return the number of a rank's pipeline stage."""
        return rank % self.split // (self.cp * self.tp)

    def dims(self, world_size: int) -> tuple[tuple[str, int], ...]:
        """Return names and lengths of the mesh of the ranks, the last one fastest.

        ``dp`` is always there, the others where their degree is above 1.
        """
        degrees = (("pp", self.pp), ("cp", self.cp), ("tp", self.tp))
        used = tuple((name, degree) for name, degree in degrees if degree > 1)
        return (("dp", world_size // self.split), *used)
