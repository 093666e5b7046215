"""Layouts: how many nodes, and how many devices on each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from pytest_dlperf.core.errors import UsageError

DeviceKind = Literal["gpu", "cpu"]
_TEXT = re.compile(r"(\d{1,6})n(\d{1,6})([gc])")


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """Nodes times devices per node, written as in the reports: ``1n8g`` is 1 node, 8 GPUs.

    ``1n2c`` is one node with 2 CPU processes.
    """

    nodes: int
    devices_per_node: int
    device: DeviceKind

    def __post_init__(self) -> None:
        if self.nodes < 1 or self.devices_per_node < 1:
            raise UsageError(
                f"layout {self}: nodes and devices per node must be 1 or more; "
                "write for instance 1n8g (1 node, 8 GPUs) or 1n2c (2 CPU processes)"
            )

    @classmethod
    def parse(cls, text: str) -> Layout:
        """Return the layout that ``text`` names; raise ``UsageError`` if it names none."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise UsageError(
                f"unknown layout {text!r}; write for instance 1n8g (1 node, 8 GPUs), "
                "4n8g (4 nodes, 32 GPUs) or 1n2c (2 CPU processes)"
            )
        nodes, devices, letter = match.groups()
        return cls(
            nodes=int(nodes),
            devices_per_node=int(devices),
            device="gpu" if letter == "g" else "cpu",
        )

    @property
    def world_size(self) -> int:
        """Number of ranks: one per device."""
        return self.nodes * self.devices_per_node

    def one_device(self) -> Layout:
        """Return the layout of one device of the same kind: the parent of a speedup."""
        return Layout(nodes=1, devices_per_node=1, device=self.device)

    def contains(self, other: Layout) -> bool:
        """Whether ``other`` is a part of this one: it fits wherever this one does."""
        return (
            self.device == other.device
            and self.nodes >= other.nodes
            and self.devices_per_node >= other.devices_per_node
        )

    @property
    def words(self) -> str:
        """What people call it: ``one device``, or its text."""
        return "one device" if self.world_size == 1 else str(self)

    def __str__(self) -> str:
        return f"{self.nodes}n{self.devices_per_node}{self.device[0]}"
