"""The other arm of an interleaved A/B, in an outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_dlperf.core.arm import ArmKind
from pytest_dlperf.core.measurement import Measurement


@dataclass(frozen=True, kw_only=True, slots=True)
class Against:
    """What a case was measured against, run for run."""

    #: As it was asked for.
    name: str
    kind: ArmKind
    #: The commit of a ref; empty for the rest.
    commit: str = ""
    #: What was measured instead of this environment and tree; empty where that is the other arm.
    now: str = ""
    #: Runs in the order of pairs: run i belongs to run i of the outcome's own measurement.
    measurement: Measurement | None = None
    #: Of the arm: framework and its version, Python, CUDA ...
    software: Mapping[str, str] = field(default_factory=dict)
    #: Which arm ran first in each pair that was launched, disturbed ones too: ``now``, ``before``.
    order: tuple[str, ...] = ()
    #: Whether nothing that the case imports differs between the arms: then nothing was compared.
    unaffected: bool = False
