"""The frameworks of ranks, a folder each: its class and its probe. Those of one case are imported.

The probe imports this package on Python 3.7 as well.
"""

from __future__ import annotations


def nccl_version(code: int) -> str | None:
    """Return ``2.18.5`` for 21805, and ``2.8.4`` for 2804, as nccl.h has it; None for 0."""
    if code <= 0:
        return None
    major, rest = divmod(code, 10000 if code >= 10000 else 1000)
    return f"{major}.{rest // 100}.{rest % 100}"
