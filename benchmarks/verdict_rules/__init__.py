"""The rules that the verdict benchmark compares: one adapter a tool, which calls its own code."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from verdict_rules.peer import PeerRule

#: The module of each adapter, and the distribution that it needs.
ADAPTERS: Final = {
    "pytest_benchmark_rule": "pytest-benchmark",
    "reframe_rule": "reframe-hpc",
    "asv_rule": "asv",
    "pyperf_rule": "pyperf",
    "mann_whitney_rule": "scipy",
}


def load() -> tuple[tuple[PeerRule, ...], dict[str, str]]:
    """Return the peers' rules, and for each distribution that cannot be imported the reason."""
    rules: list[PeerRule] = []
    missing: dict[str, str] = {}
    for module, distribution in ADAPTERS.items():
        try:
            rules += importlib.import_module(f"verdict_rules.{module}").RULES
        except ImportError as error:
            missing[distribution] = str(error)
    return tuple(rules), missing
