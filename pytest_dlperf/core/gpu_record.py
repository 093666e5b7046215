"""The records of a run's GPUs, which this side takes while ranks train: types of stored JSON."""

from __future__ import annotations

from typing import Literal, TypedDict


class _SomeGpus(TypedDict, total=False):
    #: The driver's words where the GPU does not answer any more: it fell off the bus.
    lost: str
    #: Whether ranks see it, by the variables of their environment; left out if that is unknown.
    chosen: bool


class GpuFigures(_SomeGpus):
    """What the driver says of a GPU, or of a MIG slice; None for what it does not report."""

    #: Of the board, as the driver counts; slices have that of their board.
    index: int
    #: Such as ``GPU-8932f937-d72c-4106-c12f-20bd9faed9f6``, or ``MIG-...`` of a slice.
    uuid: str
    sm_clock_mhz: int | None
    max_sm_clock_mhz: int | None
    temperature_c: int | None
    #: Bits of ``nvmlClocksEventReason*``.
    clock_reasons: int | None
    #: Share of the last moments that any kernel ran, of any process.
    utilisation: float | None


class GpuRecord(GpuFigures):
    """A GPU at one moment, a line of ``gpus.jsonl``; None for what is unknown.

    ``measure/gpu_watch.py`` writes it, and ``measure/disturbance.py`` reads it.
    """

    #: Before a rank uses a GPU, or while the window is measured.
    when: Literal["before", "window"]
    time: float
    #: Processes that are not of the run: their number, their bytes, their share of the GPU's time.
    others: int | None
    others_memory_bytes: int | None
    others_utilisation: float | None


#: The numbers of a ``GpuRecord`` that a run's figures are made of.
GpuFigure = Literal[
    "sm_clock_mhz", "max_sm_clock_mhz", "temperature_c", "clock_reasons", "others_memory_bytes",
    "others_utilisation",
]  # fmt: skip
