"""Reads which GPUs ranks see: CUDA_VISIBLE_DEVICES, in the words of CUDA."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

#: Matches a word of a prefix that gives a container some GPUs, which are then renumbered.
_OWN_NUMBERS: Final = re.compile(r"VISIBLE_DEVICES=|device=|^--gpus=?[\"']?\d")


class Named(Protocol):
    """A GPU, or a MIG slice, with the driver's name."""

    @property
    def index(self) -> int:
        """Return the driver's number of the board."""
        ...

    @property
    def uuid(self) -> str:
        """Return ``GPU-...``, or ``MIG-...`` for a slice."""
        ...


def chooses_itself(words: Iterable[str]) -> bool:
    """Return whether the words of a prefix give the ranks other GPUs than the environment says."""
    return any(_OWN_NUMBERS.search(word) for word in words)


def gpus_of(
    count: int, gpus: Sequence[Named], names: Sequence[str], environ: Mapping[str, str]
) -> list[int] | str:
    """Return the places in ``gpus`` of the first ``count`` that ranks see, or why nobody knows.

    ``gpus`` are the boards in the driver's order, then all MIG slices; ``names`` are the models of
    the boards. As CUDA reads CUDA_VISIBLE_DEVICES: entries after the first that names no GPU do
    not count, and a board that is partitioned is its first slice.
    """
    slices = {gpu.uuid: i for i, gpu in enumerate(gpus) if gpu.uuid.startswith("MIG-")}
    boards = [gpu for gpu in gpus if gpu.uuid not in slices]
    first_slice = {gpus[i].index: i for i in reversed(slices.values())}
    value = environ.get("CUDA_VISIBLE_DEVICES")
    entries = [str(number) for number in range(len(boards))] if value is None else value.split(",")
    places: list[int] = []
    by_number = False
    for entry in (entry.strip() for entry in entries[:count]):
        if entry.startswith("MIG-"):
            if entry not in slices:
                return f"CUDA_VISIBLE_DEVICES={value} names partitions (MIG)"
            places.append(slices[entry])
            continue
        if entry.isdigit() and int(entry) < len(boards):
            number = int(entry)
            by_number = True
        else:
            named = [
                i
                for i, gpu in enumerate(boards)
                if entry.startswith("GPU-") and gpu.uuid.startswith(entry)
            ]
            if len(named) != 1:
                break
            [number] = named
        places.append(first_slice.get(boards[number].index, number))
    is_sorted = environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    if by_number and len(set(names)) > 1 and not is_sorted and len(places) < len(boards):
        return (
            "this host has GPUs of several models, and CUDA numbers the fastest first; set "
            "CUDA_DEVICE_ORDER=PCI_BUS_ID"
        )
    return places
