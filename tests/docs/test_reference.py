"""The reference names everything that there is, asked of who reads it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from dlperf_reference import COMMENT, TABLES, environment, marker, problems, schemas, source

import pytest_dlperf
from pytest_dlperf.cases.marker import expand
from pytest_dlperf.cli.main import main
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.finding import REFUSING
from pytest_dlperf.core.finding_codes import CODES
from pytest_dlperf.core.verdict import KnownState, Verdict
from pytest_dlperf.judge.words import cost, later, rate, sentence, stages
from pytest_dlperf.session import options
from pytest_dlperf.session.options import OPTIONS

PAGES = sorted((Path(__file__).parents[2] / "docs").rglob("*.md"))
FIRST_CELL = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)


def test_every_table_is_on_one_page_which_says_where_a_clone_has_it() -> None:
    texts = [page.read_text("utf-8") for page in PAGES]
    named = [name for text in texts for name in COMMENT.findall(text)]
    assert sorted(named) == sorted(TABLES)
    assert sum(text.count("<!-- generated: ") for text in texts) == len(named)
    for match in (match for text in texts for match in COMMENT.finditer(text)):
        command = f"`PYTHONPATH=docs python -m dlperf_reference {match[1]}`"
        assert ("`CHANGELOG.md`" if match[1] == "news" else command) in match[0]


def test_a_clone_prints_the_tables() -> None:
    def printed(*names: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "dlperf_reference", *names]
        root = Path(__file__).parents[2]
        environment = {**os.environ, "PYTHONPATH": f"docs{os.pathsep}."}
        return subprocess.run(
            command, cwd=root, env=environment, capture_output=True, text=True, check=False
        )

    asked = printed("ini", "exit-codes")
    assert asked.stdout == f"{TABLES['ini']()}\n{TABLES['exit-codes']()}\n"
    assert "no table nothing; there are: " in printed("nothing").stderr


def test_options(pytestconfig: pytest.Config) -> None:
    known = {name.replace("_", "-") for name in vars(pytestconfig.option) if "dlperf" in name}
    written = set(re.findall(r"`--(dlperf-[a-z-]+)", TABLES["options"]()))
    assert written == known
    assert len(written) == len(OPTIONS)
    assert "`--gpus=N[,N]`" in TABLES["options"]()


def test_ini_keys(pytestconfig: pytest.Config) -> None:
    for name in FIRST_CELL.findall(TABLES["ini"]()):
        pytestconfig.getini(name)  # raises for a key that pytest does not know
    code = source.PACKAGE.rglob("*.py")
    read = {n for p in code for n in re.findall(r'"(dlperf_[a-z_]+)"', p.read_text("utf-8"))}
    declared = {name for name in read if name in pytestconfig._parser._inidict}
    assert declared == set(FIRST_CELL.findall(TABLES["ini"]()))


def test_marker_keys() -> None:
    with pytest.raises(UsageError) as caught:
        expand(nonsense=1)
    known = str(caught.value).partition("known: ")[2].split(", ")
    assert set(FIRST_CELL.findall(TABLES["marker"]())) == {*known, "cases"}
    assert set(marker.MEANINGS) == marker.keys()


def test_hooks() -> None:
    for name in dir(options):
        if name.startswith("pytest_"):
            assert f"## `{name}`" in TABLES["hooks"]()


def help_of(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_commands(capsys: pytest.CaptureFixture[str]) -> None:
    sections = dict(re.findall(r"^## `dlperf ([^`]+)`\n(.*?)(?=^## |\Z)", TABLES["commands"](),
                               re.MULTILINE | re.DOTALL))  # fmt: skip
    waiting, seen = [[]], []
    while waiting:
        words = waiting.pop()
        told = help_of(words, capsys)
        below = re.findall(r"^    ([a-z-]+)(?: |$)", told, re.MULTILINE)
        if re.search(r"^  (COMMAND|ACTION)$", told, re.MULTILINE):
            waiting += [[*words, name] for name in below]
            continue
        seen.append(" ".join(words))
        for option in set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", told)) - {"--help"}:
            assert option in sections[" ".join(words)], f"dlperf {' '.join(words)} {option}"
    assert sorted(seen) == sorted(sections)


def test_schemas() -> None:
    found = [p.name for p in Path(pytest_dlperf.__file__).parent.rglob("*.schema.json")]
    assert len(found) >= 5
    for name in found:
        assert f"## `{name}`" in TABLES["schemas"]()
    assert sorted(found) == sorted(path.name for path in schemas.files())


def test_verdicts() -> None:
    first = FIRST_CELL.findall(TABLES["verdicts"]())
    assert first == [state.value for state in (*Verdict, *KnownState)]


def test_exit_codes() -> None:
    codes = re.findall(r"^\| (\d) \|", TABLES["exit-codes"](), re.MULTILINE)
    assert codes[-4:] == ["0", "1", "2", "3"]
    assert codes[:-4] == [str(int(code)) for code in pytest.ExitCode]


def test_problem_codes() -> None:
    assert set(problems.MEANINGS) == set(source.problem_codes())
    # Given in four ways: as a text, as a constant of another module, by a rank, by a child of it
    assert {"drift", "cut-short", "batch-mismatch", "data-unreadable"} <= set(problems.MEANINGS)


def test_finding_codes() -> None:
    given = set(source.finding_codes())
    assert given == set(CODES)
    # Given in five ways: by name, by place, as a constant, in a table and by a loop
    assert {"disturbed", "pairs-decided", "explained", "slower", "data-wait"} <= given
    worded = {*sentence._REFUSALS, *stages.FIRST_LINES, *later._LINES, *later._CLAUSES}
    assert worded <= given
    assert set(FIRST_CELL.findall(TABLES["findings"]())) == given


def test_every_code_has_words() -> None:
    worded = {
        *stages.FIRST_LINES, *later._LINES, *later._CLAUSES, *rate.RATE_CODES, *cost.CODES,
        "machine-explains-nothing",
    }  # fmt: skip
    for name, meaning in CODES.items():
        if meaning.has_metric or sentence.SAYS in meaning.figures:
            continue  # words of any metric, and its own
        is_refusing = not set(meaning.weights).isdisjoint(REFUSING)
        assert name in ({*sentence._REFUSALS, *stages.FIRST_LINES} if is_refusing else worded)


def test_variables() -> None:
    assert source.variables() <= {*environment.MEANINGS, *environment.INTERNAL}
    others = {name for names in environment.OTHERS for name in names.split(", ")}
    assert source.read_variables() - source.variables() <= others
