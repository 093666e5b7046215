"""Which cases of a session are measured in rounds, and which of those runs still count.

Only cases of bare tests are: the case alone runs there, and nothing of the project before it.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_dlperf.core.case import Case
from pytest_dlperf.flow.bench import Bench
from pytest_dlperf.flow.rounds import InRounds, run_rounds, within_budget
from pytest_dlperf.session.case_items import NAME, selected_of
from pytest_dlperf.session.case_record import CaseRecords
from pytest_dlperf.session.folder import changed, differs_among, inherited
from pytest_dlperf.session.pytest_private import SETUP_FIXTURES, file_of, fixtures_of

if TYPE_CHECKING:
    from pytest_dlperf.session.session import Session

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
    if not set(asked) <= {NAME, "request", *parameters}:
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
    return value is not None and ast.unparse(value) == f"{NAME}.run()"


def forget_changed(case: Case, bench: Bench, item: pytest.Item, records: CaseRecords) -> None:
    """Forget runs of ``case`` that do not count in its test, which then measures all.

    Those that failed, where tests without a case came before ``item``, which may prepare what
    the case needs. And where what ranks inherit has changed since the rounds, those of the
    case and of its one-device parent. A note says why.
    """
    is_in_rounds = records[case.id].inherited is not None
    if is_in_rounds and bench.runs.failure(case) and _follows_a_plain_test(item):
        bench.runs.forget(case)
        words = "its run in rounds failed: it is launched again, after the tests before it"
        bench.watcher.notice(case, words)
    parent = case.parent()
    _forget_changed_runs(case, bench, records)
    if parent is not None:
        _forget_changed_runs(parent, bench, records)


def _forget_changed_runs(case: Case, bench: Bench, records: CaseRecords) -> None:
    record, now = records[case.id], inherited()
    before = record.inherited
    if before is None or before == now:
        return
    # The parent's own test, or another of its cases, may have the former ones again
    record.inherited = now
    if bench.runs.forget(case):
        names = changed(before, now)
        words = f"{names} changed after its runs in rounds, so that they do not count"
        bench.watcher.notice(case, words)


def _follows_a_plain_test(item: pytest.Item) -> bool:
    """Return whether a test without a case comes before ``item`` in the session."""
    earlier = itertools.takewhile(lambda test: test is not item, item.session.items)
    return any(selected_of(test) is None for test in earlier)


def measure_in_rounds(pytest_session: pytest.Session, session: Session) -> None:
    """Launch the first runs of the session's cases in rounds, where there are several of them.

    That is all runs of their first looks but the last of each. The processes of pytest-xdist
    share them, if their ranks inherit the same. Not where a scheduler or nodes started by hand
    decide about the order of cases, nor for pairs and logs. A case whose test is not bare is
    measured in its test alone, and so is one for whose first look a budget has no time.
    """
    settings, config = session.settings, pytest_session.config
    if (
        pytest_session.testsfailed
        or config.option.collectonly
        or config.option.setuponly
        or settings.runs_nothing
        or settings.scheduling is not None
        or settings.against is not None
        or settings.from_logs is not None
        or settings.cost
        # Outcomes come one by one, so that each try gets further
        or session.resumed is not None
        or settings.place.node_part is not None
    ):
        return
    cases = [
        InRounds(selected.case, str(item.path.parent))
        for item in pytest_session.items
        if (selected := selected_of(item))
        and not selected.error
        and is_bare(item, settings.rootdir)
    ]
    if len(cases) < 2:
        return
    bench, process = session.resources.bench, session.process
    if process.is_worker and (differ := differs_among(bench.folder, process.count)):
        words = f"cases are not measured in rounds, as the workers differ in {differ}"
        bench.watcher.notice(cases[0].case, words)
        return
    if bench.policy.budget is not None:
        cases = within_budget(cases, bench, bench.policy.budget)
    if len(cases) < 2:
        return
    # Each worker begins with another case
    first = process.number * len(cases) // process.count
    now = inherited()
    for in_rounds in cases:
        parent = in_rounds.case.parent()
        for case in (in_rounds.case, parent) if parent else (in_rounds.case,):
            session.records[case.id].inherited = now
    run_rounds(
        [*cases[first:], *cases[:first]],
        bench,
        most_failures=1 if config.getoption("stepwise", None) else config.getoption("maxfail"),
        ends_session=(KeyboardInterrupt, pytest.exit.Exception),
    )
