"""Lightning: the progress bars of ``pytorch_lightning/callbacks/progress``.

``Epoch 0:  10%|#  | 50/500 [00:25<03:45, 2.00it/s]`` of ``tqdm_progress.py``, and the bar of
``rich_progress.py``: iterations done over the time since the epoch began, a running mean. Before
2.0 the bar goes on while validation does, so nothing of an epoch counts after that.
"""

from __future__ import annotations

import re
from typing import Final

from pytest_dlperf.measure.logs.declare import Format, Loss, Reading

_BAR: Final = re.compile(
    rb"\bEpoch (\d{1,9}):(?: :)? {1,8}\d{1,3}%\|[^|\n]{0,400}\| {0,8}(\d{1,15})/\d{1,15} "
    rb"\[(?:(\d{1,6}):)?(\d\d):(\d\d)<"
)
_RICH: Final = re.compile(
    rb"\bEpoch (\d{1,9})/-?\d{1,9} [^\d\n]{1,400}(\d{1,15})/\d{1,15} "
    rb"(\d{1,6}):(\d\d):(\d\d) \xe2\x80\xa2 "
)
_VALIDATION: Final = re.compile(rb"^\s{0,8}Validat(?:ing|ion)\b")
_LOSS: Final = Loss(rb"\b(?:train_)?loss(?:_step)?(?:=|: )")


def parse(line: bytes) -> Reading | None:
    """Read a state of the bar; nothing is known before the first iteration and second."""
    match = _BAR.search(line) or _RICH.search(line)
    if match is None:
        return Reading(step=-1, aside=1) if _VALIDATION.match(line) else None
    done = int(match[2])
    elapsed = int(match[3] or 0) * 3600 + int(match[4]) * 60 + int(match[5])
    if done < 1 or elapsed < 1:
        return None
    return Reading(epoch=int(match[1]), step=done, seconds=elapsed / done, loss=_LOSS(line))


FORMAT: Final = Format(
    name="lightning",
    scope="process",
    averaging="running",
    running_since=1,
    unit="samples",
    first_step=1,
    anchors=(b"it/s", b"s/it"),
    parse=parse,
    by_shape=True,
    bar=True,
)
