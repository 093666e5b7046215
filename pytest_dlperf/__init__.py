"""pytest-dlperf: performance-regression testing of deep-learning training.

Public names are loaded when first used, so that a pytest run without a perf case, and a
worker in another interpreter, pay nothing for them.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pytest_dlperf.cases.marker import expand
    from pytest_dlperf.core.case import Case
    from pytest_dlperf.core.layout import Layout
    from pytest_dlperf.core.log_pattern import pattern
    from pytest_dlperf.core.model_flops import transformer_flops
    from pytest_dlperf.core.outcome import Outcome
    from pytest_dlperf.core.protocol import Protocol
    from pytest_dlperf.core.verdict import Verdict
    from pytest_dlperf.session.fixture import Dlperf

__version__ = "0.1.0"
__all__ = [
    "Case", "Dlperf", "Layout", "Outcome", "Protocol", "Verdict", "expand", "pattern",
    "transformer_flops",
]  # fmt: skip

_HOMES = {
    "Case": "pytest_dlperf.core.case",
    "Dlperf": "pytest_dlperf.session.fixture",
    "Layout": "pytest_dlperf.core.layout",
    "Outcome": "pytest_dlperf.core.outcome",
    "Protocol": "pytest_dlperf.core.protocol",
    "Verdict": "pytest_dlperf.core.verdict",
    "expand": "pytest_dlperf.cases.marker",
    "pattern": "pytest_dlperf.core.log_pattern",
    "transformer_flops": "pytest_dlperf.core.model_flops",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
