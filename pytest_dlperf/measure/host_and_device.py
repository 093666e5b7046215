"""Compares what the host did in the window with what its GPU did."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from pytest_dlperf.core.run import Problem
from pytest_dlperf.measure.records import RankRecords

#: What a rank reports of the clock that times its laps.
_EVENTS: Final = "device events"
#: Share by which the device's events and the host's clock may differ over a window, and the
#: seconds that the begin and the end of a window take on the host.
_CLOCKS: Final = 0.02
_EDGES_S: Final = 0.02
#: Share of the steps below which the host did not run ahead of the device.
_AHEAD: Final = 0.1


def clocks_disagree(steps: tuple[int, int], records: Sequence[RankRecords]) -> list[Problem]:
    """Return the problem of laps by a device's events that do not add up to the host's window.

    ``steps`` is the measured window. Events are on the current stream: work that a step puts on
    another stream, and does not wait for, is in no lap.
    """
    for rank in records:
        framework, window = rank.by_kind["framework"], rank.by_kind["window"]
        if framework.get("timing") != _EVENTS:
            continue
        first, end = steps
        laps_s = math.fsum(s.seconds for s in rank.spans if first <= s.first_step < end)
        seconds = window["seconds"]
        turns = len(rank.by_kind["turns"]["first_steps"]) if rank.wrote("turns") else 1
        if abs(seconds - laps_s) > _CLOCKS * seconds + _EDGES_S * turns:
            message = (
                f"the device's events say that the window took {laps_s:.3g} s of rank "
                f"{rank.rank}, the host's clock says {seconds:.3g} s; a step that leaves work on "
                "another stream must let the current stream wait for it"
            )
            return [Problem(code="clocks-disagree", message=message)]
    return []


def host_waits(steps: tuple[int, int], records: Sequence[RankRecords]) -> list[Problem]:
    """Return the problem of a host that queues nothing ahead of its GPU.

    Then the GPU is idle, in each step, until the host gives it the next one.
    """
    first, end = steps
    for rank in records:
        framework, window = rank.by_kind["framework"], rank.by_kind["window"]
        ahead = window.get("steps_ahead")
        if framework.get("timing") != _EVENTS or ahead is None:
            continue
        if ahead >= _AHEAD * (end - first):
            continue
        cause = (
            "step() returns its loss as a number or in the host's memory, for which the host "
            "waits each time; return the GPU's tensor"
            if window.get("host_losses")
            else "a step that reads a number from the GPU waits for it (.item(), a loss scaler "
            "whose optimizer is not fused), or the host needs as long as the GPU for a step"
        )
        message = (
            f"rank {rank.rank} ran ahead of its GPU in {ahead} of {end - first} steps, so that "
            f"the GPU waits for the host in each of the others: {cause}"
        )
        return [Problem(code="host-waits", message=message)]
    return []
