"""NGC PyTorch BERT: ``run_pretraining.py`` prints one rate, of the whole run.

Its warm-up cannot be taken out, so no throughput is given. MLPerf's fork prints it in a dict.
"""

from __future__ import annotations

from typing import Final

from pytest_dlperf.measure.logs.declare import Field, Format, Loss, Reading

_STEP: Final = Field(rb"\bTraining Iteration: ", rb" ")
_WHOLE: Final = Field(rb"\btraining_sequences_per_second(?: :|['\"]:) ?")
_LOSS: Final = Loss(rb"\baverage_loss : ")


def parse(line: bytes) -> Reading | None:
    """Read a step without a rate, or the rate without a step."""
    whole = _WHOLE(line)
    step = _STEP.whole(line)
    if whole is None and step is None:
        return None
    return Reading(step=-1 if step is None else step, loss=_LOSS(line), whole_run=whole)


FORMAT: Final = Format(
    name="ngc-pytorch-bert",
    scope="global",
    averaging="whole",
    unit="sequences",
    first_step=1,
    counter="global",
    anchors=(b"training_sequences_per_second", b"Training Iteration:"),
    parse=parse,
    by_shape=True,
)
