"""Whether a test is bare: its case alone runs, and nothing of the project before it."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_dlperf.session.pytest_private import SETUP_FIXTURES, file_of, fixtures_of

#: Our fixture, which is also the name of the marker.
_NAME: Final = "dlperf"
#: Markers of tests that may not run, or that need something first.
_MAY_NOT_RUN: Final = ("skip", "skipif", "xfail", "usefixtures")
#: Hooks that pytest calls around a test; those that only read reports are left out.
_HOOKS: Final = (
    "pytest_runtestloop",
    "pytest_runtest_protocol",
    "pytest_runtest_logstart",
    "pytest_runtest_setup",
    "pytest_runtest_call",
    "pytest_runtest_teardown",
    "pytest_fixture_setup",
    "pytest_pyfunc_call",
)
#: What pytest calls in the ``__init__.py`` of a package of tests.
_OF_PACKAGE: Final = re.compile(r"\b(setup_module|setUpModule|teardown_module|tearDownModule)\b")
_OURS: Final = Path(__file__).resolve().parents[1]


def is_bare(item: pytest.Item, rootdir: Path) -> bool:
    """Return whether only its marker decides how the case of ``item`` runs.

    Not where the project has fixtures, setup functions or hooks that run with the test, nor where
    the test does something before ``dlperf.run()``: they may prepare what the case needs.
    """
    if any(item.get_closest_marker(name) for name in _MAY_NOT_RUN):
        return False
    asked, files = fixtures_of(item)
    callspec: Any = getattr(item, "callspec", None)
    parameters = set(callspec.params) if callspec is not None else set()
    if not set(asked) <= {_NAME, "request", *parameters}:
        return False
    if any(name.startswith(SETUP_FIXTURES) for name in files) or _has_package_setup(item):
        return False
    hooks = (impl for name in _HOOKS for impl in getattr(item.ihook, name).get_hookimpls())
    files_run = {*files.values(), *(file_of(impl.function) for impl in hooks)}
    if any(_is_of_project(file, item, rootdir) for file in files_run):
        return False
    return _runs_first(getattr(item, "function", None))


def _is_of_project(file: str, item: pytest.Item, rootdir: Path) -> bool:
    path = Path(file).resolve()
    if not file or "site-packages" in path.parts or path.is_relative_to(_OURS):
        return False
    # A test may be outside of the rootdir, and its conftests above both
    folders = (rootdir, item.path.parent)
    return path.name == "conftest.py" or any(path.is_relative_to(f.resolve()) for f in folders)


def _has_package_setup(item: pytest.Item) -> bool:
    """Whether a package of ``item`` has a setup function; pytest makes no fixture of it."""
    files = [
        node.path / "__init__.py" for node in item.listchain() if isinstance(node, pytest.Package)
    ]
    return any(_OF_PACKAGE.search(file.read_text("utf-8", errors="replace")) for file in files)


def _runs_first(function: Any) -> bool:
    """Whether the body of a test begins with ``dlperf.run()``; a docstring may precede it."""
    if function is None or hasattr(function, "__wrapped__"):
        return False  # a decorator runs before the body
    try:
        [test] = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    except (OSError, TypeError, SyntaxError, ValueError):
        return False
    if not isinstance(test, ast.FunctionDef):
        return False
    body = test.body if ast.get_docstring(test) is None else test.body[1:]
    first = body[0] if body else None
    value = first.value if isinstance(first, ast.Expr | ast.Assign | ast.AnnAssign) else None
    return value is not None and ast.unparse(value) == f"{_NAME}.run()"
