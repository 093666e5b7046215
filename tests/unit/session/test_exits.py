"""Text leaves a session for pytest's terminal by few functions, which escape it."""

from __future__ import annotations

import ast
import io
from pathlib import Path
from types import SimpleNamespace

import pytest

import pytest_dlperf
from pytest_dlperf.session import exits
from tests.helpers.hostile_text import HOSTILE, assert_nothing_steers

PACKAGE = Path(pytest_dlperf.__file__).parent
COMMAND = f"::error::x\x1b[2J\n{HOSTILE}"
#: How a text reaches pytest, or a stream of this process; each with what may call it itself.
EXITS = {
    "pytest.UsageError": {"exits.py"},
    "warnings.warn": {"exits.py"},
    "reporter.write": {"exits.py"},
    "reporter.line": {"exits.py"},
    "sys.stdout.write": {"exits.py"},
    # Commands of ours for GitHub's runner
    "reporter.write_line": {"summary.py"},
}


@pytest.mark.parametrize("name", EXITS)
def test_nothing_else_calls_what_escapes_nothing(name: str) -> None:
    modules = [PACKAGE / "plugin.py", *(PACKAGE / "session").rglob("*.py")]
    callers = {
        module.name
        for module in modules
        for node in ast.walk(ast.parse(module.read_text("utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == name
    }
    assert callers == EXITS[name]


def test_what_leaves_is_escaped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    terminal = io.StringIO()
    reporter = SimpleNamespace(
        ensure_newline=lambda: None,
        write=terminal.write,
        line=lambda text, **colours: terminal.write(f"{text}\n"),
    )
    exits.write_line(reporter, COMMAND, COMMAND, "red")
    exits.write_line(None, COMMAND, COMMAND)
    with pytest.warns(pytest.PytestWarning) as warned:
        exits.warn(COMMAND)
    for text in (
        terminal.getvalue(),
        capsys.readouterr().out,
        str(exits.usage_error(COMMAND)),
        str(warned[0].message),
    ):
        assert "octocat" in text
        assert_nothing_steers(text)
