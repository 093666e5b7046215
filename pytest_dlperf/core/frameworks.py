"""The table of frameworks: a new one is an entry here, and its folder in ``worker/frameworks/``.

Ranks and the pytest side read it. Like ``wire.py`` it needs the standard library only, and loads
on Python 3.7, whose ``typing`` lacks what is imported for types alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Final


class FrameworkEntry(NamedTuple):
    """What is known of a framework before it is imported.

    The folder of its name in ``worker/frameworks/`` has the rest: its class, and ``probe()``.
    """

    #: Class in ``worker/frameworks/<name>/framework.py`` that follows ``base.Framework``.
    worker: str
    #: Launcher of its cases with several ranks (``launch/launchers/``).
    launcher: str
    #: Distributions that bring it.
    distributions: tuple[str, ...]
    #: The lowest version that will do; the extras of pyproject.toml say the same.
    lowest: tuple[int, ...]
    #: What the lowest has that those before it lack; goes on with a sentence.
    needed: str
    #: The first version that will not do again, if there is one.
    too_new: tuple[int, int] | None = None
    #: What is wrong from there on; ends a sentence.
    wrong: str = ""
    #: Whether one process can drive several devices (``devices_per_process`` in the marker).
    drives_several: bool = False
    #: Whether its ``profile`` makes profiles of steps (``--dlperf-explain``).
    has_profiles: bool = False
    #: Whether they have what is allocated at the peak, by where it was allocated.
    has_memory_places: bool = False
    #: Whether operations of the backward pass are counted, and not of the forward pass alone.
    counts_backward: bool = False
    #: The lowest version in which the cost of a step is traced; None: in none.
    lowest_traced: tuple[int, ...] | None = None
    #: By precision, variables that its libraries read when they are loaded: set before its import.
    variables: Mapping[str, Mapping[str, str]] = {}


#: By the name in ``Case.framework``, which is also the name of its module.
FRAMEWORKS: Final[Mapping[str, FrameworkEntry]] = {
    "torch": FrameworkEntry(
        worker="Torch",
        launcher="torchrun",
        distributions=("torch",),
        lowest=(2, 3),
        needed="which has torch.amp.GradScaler",
        has_profiles=True,
        has_memory_places=True,
        counts_backward=True,
        # FSDP2 moved to where a trace follows it
        lowest_traced=(2, 6),
    ),
    "paddle": FrameworkEntry(
        worker="Paddle",
        launcher="paddle.distributed.launch",
        distributions=("paddlepaddle", "paddlepaddle-gpu"),
        lowest=(2, 6),
        needed="the oldest that was tried",
        has_profiles=True,
        # NVIDIA's libraries let convolutions use TF32; a case named fp32 must not, and Paddle has
        # no switch for it.
        variables={"fp32": {"NVIDIA_TF32_OVERRIDE": "0"}},
    ),
    "tensorflow": FrameworkEntry(
        worker="Tensorflow",
        launcher="horovodrun",
        distributions=("tensorflow", "tensorflow-cpu"),
        lowest=(2, 12),
        needed="which has tf.test.experimental.sync_devices",
        has_profiles=True,
        too_new=(2, 16),
        wrong="Keras 3 is in it, whose variables Horovod cannot average",
    ),
    "jax": FrameworkEntry(
        worker="Jax",
        launcher="jax-processes",
        distributions=("jax",),
        lowest=(0, 6, 1),
        needed="which has jax.shard_map",
        drives_several=True,
        has_profiles=True,
        counts_backward=True,
        lowest_traced=(0, 6, 1),
    ),
}
#: The frameworks in which the cost of a step is traced, each with the lowest such version.
TRACED: Final[Mapping[str, tuple[int, ...]]] = {
    name: entry.lowest_traced
    for name, entry in FRAMEWORKS.items()
    if entry.lowest_traced is not None
}
