"""PaddleSeg: ``paddleseg/core/train.py``; means over ``log_iters``, ``iter`` never restarts.

Until January 2021 it printed ``iter=5/100`` and no ``ips``.
"""

from __future__ import annotations

from typing import Final

from pytest_dlperf.measure.logs.declare import Field, Format, Loss, Reading

_STEP: Final = Field(rb"\biter(?:: |=)", rb"/")
_RATE: Final = Field(rb"\bips(?:: |=)")
_SECONDS: Final = Field(rb"\bbatch_cost(?:: |=)")
_EPOCH: Final = Field(rb"\bepoch(?:: |=)", rb",")
_TOTAL: Final = Field(rb"\biter(?:: |=)\d{1,15}/")
_WAIT: Final = Field(rb"\breader_cost(?:: |=)")
_LOSS: Final = Loss(rb"\bloss(?:: |=)")


def parse(line: bytes) -> Reading | None:
    """Read a record."""
    step = _STEP.whole(line)
    if step is None:
        return None
    return Reading(
        epoch=_EPOCH.whole(line),
        step=step,
        total=_TOTAL.whole(line),
        rate=_RATE(line),
        seconds=_SECONDS(line),
        data_wait_seconds=_WAIT(line),
        loss=_LOSS(line),
    )


FORMAT: Final = Format(
    name="paddleseg",
    scope="device",
    averaging="window",
    unit="images",
    first_step=1,
    counter="global",
    anchors=(b"[TRAIN]",),
    parse=parse,
    by_shape=True,
)
