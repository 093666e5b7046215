"""Marked tests without a case: each is an error of the collection, as nothing would measure it.

pytest makes cases of functions, and of methods of plain classes. It asks nobody about methods of
``unittest.TestCase``, the items of other plugins' collectors, or a marker that is added later.
"""

from __future__ import annotations

import ast
import inspect
import unittest
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_dlperf.session.case_items import NAME, has_case

_NEVER: Final = "its case would never run"


def function_refused(function: Any, fixtures: Iterable[str]) -> str:
    """Return why a marked test function can be no case; empty if it can."""
    if NAME not in fixtures:
        return (
            "a test marked dlperf must take the fixture dlperf and call dlperf.run(); else "
            f"{_NEVER}"
        )
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return (
            "a test marked dlperf is an ordinary function: dlperf.run() waits for the ranks, and "
            "an event loop with it; write def in place of async def"
        )
    return ""


def refuse_skipped(collector: pytest.Collector, report: pytest.CollectReport) -> None:
    """Fail ``report`` if a file or a folder is skipped as a whole, and has perf tests.

    What they declare is not known, as they were not read to their end: their cases would be
    missing without a word.
    """
    if isinstance(collector, pytest.File):
        what, files = "file", [collector.path]
    elif isinstance(collector, pytest.Directory):  # its conftest.py says so
        what, files = "folder", sorted(collector.path.rglob("*.py"))
    else:
        return
    with_perf_tests = next(filter(_has_perf_tests, files), None)
    if with_perf_tests is None:
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
    owner = "" if what == "file" else f"{with_perf_tests.relative_to(collector.path)} "
    report.outcome = "failed"
    report.longrepr = (
        f"{collector.nodeid}: the {what} is skipped as a whole ({reason}), and {owner}has tests "
        "marked dlperf, which --dlperf-strict does not let go missing; skip each test instead, "
        f"and leave --dlperf-strict out, or deselect the {what} (--ignore=...)"
    )


def _has_perf_tests(path: Path) -> bool:
    """Return whether a Python file has the marker, or a function that takes our fixture."""
    try:
        nodes = list(ast.walk(ast.parse(path.read_bytes())))
    except (SyntaxError, ValueError):  # pytest cannot read tests there either
        return False
    return any(
        (isinstance(node, ast.Attribute) and node.attr == NAME)
        or (isinstance(node, ast.arg) and node.arg == NAME)
        for node in nodes
    )


def report(session: pytest.Session) -> None:
    """Report each of the session's marked items that has no case as an error of the collection."""
    for item in session.items:
        if item.get_closest_marker(NAME) is None or has_case(item):
            continue
        session.config.hook.pytest_collectreport(
            report=pytest.CollectReport(
                nodeid=item.nodeid,
                outcome="failed",
                longrepr=f"{item.nodeid}: {_why(item)}",
                result=[],
            )
        )


def _why(item: pytest.Item) -> str:
    owner = getattr(item, "cls", None)
    if inspect.isclass(owner) and issubclass(owner, unittest.TestCase):
        return (
            f"a method of unittest.TestCase is marked dlperf, and takes no fixtures, so that "
            f"{_NEVER}; write a function, or a method of a class that is not a TestCase: "
            f"def {item.name}(dlperf): dlperf.run()"
        )
    kind = type(item)
    if isinstance(item, pytest.Function):
        return (
            f"it is marked dlperf, and has no case, so that {_NEVER}: the marker was added after "
            f"pytest had asked for cases, or another plugin made the item ({kind.__module__}); "
            "write the marker above def test_...(dlperf)"
        )
    return (
        "it is marked dlperf, and is not a function but a "
        f"{kind.__qualname__} ({kind.__module__}), so that {_NEVER}; write a function: "
        "def test_...(dlperf): dlperf.run()"
    )
