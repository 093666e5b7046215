"""Codes of a measurement's problems that forbid to judge it."""

from __future__ import annotations

from typing import Final

#: The runs themselves cannot be trusted.
UNSTEADY: Final = frozenset(
    {
        "implausible-speedup",
        "drift",
        "recompiled",
        "clocks-disagree",
        "clock-mismatch",
        "few-digits",
        "prints-unread",
    }
)
#: Those of them that leave open which part of a window is the case's own.
DRIFTING: Final = frozenset({"drift", "recompiled"})
DISTURBED: Final = frozenset({"disturbed"})
#: They leave open whether the declared work was measured.
UNCHECKED: Final = frozenset({"precision-unchecked", "batch-unchecked"})
#: They leave open which training a log measured.
DOUBTFUL: Final = (
    frozenset({"world-size-mismatch", "batch-size-mismatch", "precision-mismatch"})
    | UNCHECKED
    | DISTURBED
)
#: A failed training, whose speed is meaningless.
LOST: Final = frozenset({"loss-not-finite", "not-trained"})
