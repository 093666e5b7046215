"""PaddleNLP's Trainer, of 2022 and later: ``paddlenlp/trainer/trainer.py``.

Updates a second since the last print; the log's head has the batch of an update.
``interval_samples_per_second`` counts one update for all of them in versions of 2022, and is not
used.
"""

from __future__ import annotations

from typing import Final

from pytest_dlperf.measure.logs.declare import Field, Format, Loss, Reading

_STEP: Final = Field(rb"\bglobal_step: ", rb",")
_RUNTIME: Final = Field(rb"\binterval_runtime: ")
_STEPS_A_SECOND: Final = Field(rb"\binterval_steps_per_second: ")
_LOSS: Final = Loss(rb"\bloss: ")


def parse(line: bytes) -> Reading | None:
    """Read a record."""
    step, runtime, speed = _STEP.whole(line), _RUNTIME(line), _STEPS_A_SECOND(line)
    if step is None or runtime is None or speed is None:
        return None
    # The speed has few digits, but the updates are a whole number.
    updates = round(max(0.0, min(runtime * speed, 1e9)))
    if updates < 1:
        return None
    return Reading(step=step, seconds=runtime / updates, loss=_LOSS(line))


FORMAT: Final = Format(
    name="paddlenlp-trainer",
    scope="process",
    averaging="window",
    unit="sequences",
    first_step=1,
    counter="global",
    anchors=(b"interval_steps_per_second: ",),
    parse=parse,
    by_shape=True,
)
