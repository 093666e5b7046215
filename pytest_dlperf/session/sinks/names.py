"""Registry of sinks: built-in ones, and entry points of other packages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Final, TypeAlias

from pytest_dlperf.core.errors import UsageError

ENTRY_POINTS: Final = "pytest_dlperf.sinks"
#: Clears the names before it.
OFF: Final = "off"
_BUILT_IN: Final = {
    "webhook": ("pytest_dlperf.session.sinks.built_in", "webhook"),
    "chat": ("pytest_dlperf.session.sinks.built_in", "chat"),
    "issue": ("pytest_dlperf.session.sinks.issue", "issue"),
    "wandb": ("pytest_dlperf.session.sinks.trackers", "wandb"),
    "mlflow": ("pytest_dlperf.session.sinks.trackers", "mlflow"),
    "opentelemetry": ("pytest_dlperf.session.sinks.trackers", "opentelemetry"),
}

#: Takes what the results file has, and returns where it went, in words, or None.
Sink: TypeAlias = Callable[[Mapping[str, Any]], "str | None"]


def sink_names() -> tuple[str, ...]:
    """Return the names of all sinks, ours first."""
    installed = {entry.name for entry in entry_points(group=ENTRY_POINTS)} - {*_BUILT_IN, OFF}
    return (*_BUILT_IN, *sorted(installed))


def check(names: Sequence[str]) -> None:
    """Raise ``UsageError`` for a name that no sink has."""
    for name in names:
        if name not in sink_names():
            raise UsageError(
                f"--dlperf-sink={name}: no such sink; known are {', '.join(sink_names())}. Those "
                f"of other packages are entry points of {ENTRY_POINTS}"
            )


def load(name: str) -> Sink:
    """Return a sink; raises what its module raises."""
    if name in _BUILT_IN:
        module, function = _BUILT_IN[name]
        sink: Sink = getattr(import_module(module), function)
        return sink
    (entry, *_) = entry_points(group=ENTRY_POINTS, name=name)
    loaded: Sink = entry.load()
    return loaded
