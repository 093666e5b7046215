"""Versions of frameworks that the worker runs on."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from pytest_dlperf.core.errors import NotRunError


class Bounds(NamedTuple):
    """The lowest version that will do, and the first that will not again, if there is one."""

    lowest: tuple[int, int]
    #: What the lowest has that those before it lack; goes on with a sentence.
    needed: str
    too_new: tuple[int, int] | None = None
    #: What is wrong from there on; ends a sentence.
    wrong: str = ""


#: By the name in ``Case.framework``; the extras of pyproject.toml say the same.
BOUNDS: Final = {
    "torch": Bounds((2, 3), "which has torch.amp.GradScaler"),
    "paddle": Bounds((2, 6), "the oldest that was tried"),
    "tensorflow": Bounds(
        (2, 12),
        "which has tf.test.experimental.sync_devices",
        (2, 16),
        "Keras 3 is in it, whose variables Horovod cannot average",
    ),
}
_NUMBERS = re.compile(r"(\d+)\.(\d+)")


def check_version(framework: str, version: str, *, where: str = "", keras_2: bool = False) -> None:
    """Raise ``NotRunError`` if the worker does not run on ``version`` of ``framework``.

    ``where`` says where it was found, if not here; ``keras_2`` that this TensorFlow, however
    new, uses Keras 2. A version that is no number, or 0.0 (Paddle's own builds), will do.
    """
    found = _NUMBERS.match(version)
    numbers = (int(found[1]), int(found[2])) if found else (0, 0)
    if numbers == (0, 0):
        return
    bounds = BOUNDS[framework]
    name, wanted = f"{framework} {version}{where and ' '}{where}", requirement(framework)
    if numbers < bounds.lowest:
        lowest = ".".join(map(str, bounds.lowest))
        raise NotRunError(
            f"{name} is too old: ranks need {lowest} or newer, {bounds.needed}; install "
            f"{framework}{wanted}"
        )
    if bounds.too_new is not None and numbers >= bounds.too_new and not keras_2:
        raise NotRunError(
            f"{name} is too new: {bounds.wrong}; install {framework}{wanted}, or tf_keras beside "
            "it, and set TF_USE_LEGACY_KERAS=1"
        )


def requirement(framework: str) -> str:
    """Return the versions of ``framework`` that will do, as pip reads them: ``>=2.12,<2.16``."""
    bounds = BOUNDS[framework]
    below = f",<{'.'.join(map(str, bounds.too_new))}" if bounds.too_new else ""
    return f">={'.'.join(map(str, bounds.lowest))}{below}"
