"""A command advises its own options, and says whose those are that it lacks."""

from __future__ import annotations

import argparse
import ast
import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

import pytest_dlperf
from pytest_dlperf import cli
from pytest_dlperf.cli.advice import in_words_of
from pytest_dlperf.cli.main import _parser
from pytest_dlperf.core.outcome import results_to_json
from tests.helpers.report_builders import case, measured

pytestmark = pytest.mark.newest

_OF_PYTEST = re.compile(r"--(?:dlperf-(?!json|html)[a-z-]+[a-z]|update-baselines)")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z_-]+")


def options_of(*words: str) -> frozenset[str]:
    parsed: argparse.Namespace = _parser().parse_args(words)
    return parsed.own_options  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("allow more with --dlperf-tolerance", "allow more with --tolerance"),
        ("decide it: --dlperf-max-runs=12", "decide it: pytest --dlperf-max-runs=12"),
        (
            "accept it with --update-baselines --dlperf-reason=TEXT; x",
            "accept it with pytest --update-baselines --dlperf-reason=TEXT; x",
        ),
        ("type pytest --dlperf-list", "type pytest --dlperf-list"),
        ("no file of --dlperf-json", "no file of --dlperf-json"),
        ("(--dlperf-against)", "(pytest --dlperf-against)"),
    ],
)
def test_options_are_those_of_the_command_or_of_pytest(text: str, made: str) -> None:
    arguments = argparse.Namespace(own_options=options_of("judge", "a", "b"))
    assert in_words_of(arguments, text) == made


def test_an_action_has_the_options_of_itself() -> None:
    assert "--tolerance" in options_of("baselines", "check")
    assert "--tolerance" not in options_of("baselines", "list")


@pytest.mark.parametrize(
    ("before", "now", "verdict"),
    [
        ((100, 101, 99), (50, 51, 49), "regressed"),
        ((50, 51, 49), (100, 101, 99), "improved"),
        ((100, 101, 99), (100, 101, 99), "passed"),
        ((100, 130, 80), (95, 120, 70), ""),
        ((100,), (97,), ""),
        ((100, 101, 99), (98, 99, 97), ""),
    ],
    ids=str,
)
def test_judge_advises_nothing_that_it_lacks(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    before: Sequence[float],
    now: Sequence[float],
    verdict: str,
) -> None:
    files = []
    for name, rates in (("before", before), ("now", now)):
        files.append(tmp_path / f"{name}.json")
        files[-1].write_text(json.dumps(results_to_json([measured(case(), *rates)])))
    words = ["judge", *map(str, files)]
    cli.main(words)
    text = capsys.readouterr().out
    assert verdict in text
    of_pytest = re.compile(r"pytest(?: --[\w-]+(?:=\S+)?)+")
    own = options_of(*words)
    assert set(_OPTION.findall(of_pytest.sub("", text))) <= own, text


#: Options of pytest in messages that no command meets: what they say was never given to it.
NOT_GIVEN = {
    "--dlperf-data", "--dlperf-hosts", "--dlperf-inject", "--dlperf-jobs", "--dlperf-master",
    "--dlperf-node-rank", "--dlperf-prefix", "--dlperf-python", "--dlperf-queue-timeout",
    "--dlperf-scheduler", "--dlperf-slurm", "--dlperf-ssh",
}  # fmt: skip
#: Of stored sessions, and of pairs with their code: ``compare`` has none, and ``judge`` stores
#: nothing.
OF_STORED_SESSIONS = {
    "--dlperf-against", "--dlperf-baselines", "--dlperf-confirm", "--dlperf-explain",
    "--update-baselines",
}  # fmt: skip
#: Of a training that is started.
OF_TRAININGS = {"--dlperf-iterations", "--dlperf-warmup", "--dlperf-workdir"}
#: Of a trace of costs, which no command makes.
OF_TRACES = {"--dlperf-cost", "--dlperf-timeout"}
#: The judge words its sentences itself, which the tests above read.
OF_THE_JUDGE = ("pytest_dlperf.judge.", "pytest_dlperf.core.metrics", "pytest_dlperf.cli.")


@pytest.mark.parametrize(
    ("words", "not_met"),
    [
        (("compare", "--a", "x", "--b", "y"), NOT_GIVEN | OF_STORED_SESSIONS | OF_TRACES),
        (("extract",), NOT_GIVEN | OF_TRAININGS),
        (("judge", "a", "b"), NOT_GIVEN | OF_TRAININGS),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_each_option_in_a_message_is_the_commands_or_is_of_what_it_cannot_have_been_given(
    words: tuple[str, ...], not_met: set[str]
) -> None:
    """A message for several callers names an option by ``OptionNames.typed``."""
    own = options_of(*words)
    wrong = {
        (module, option)
        for module in imported_by(f"pytest_dlperf.cli.{words[0]}")
        if not module.startswith(OF_THE_JUDGE)
        for option in options_in(module)
        if option.replace("--dlperf-", "--") not in own and option not in not_met
    }
    assert not wrong


def test_the_options_that_a_message_names_are_found() -> None:
    assert "pytest_dlperf.flow.holding" in imported_by("pytest_dlperf.cli.compare")
    assert "--dlperf-workdir" in options_in("pytest_dlperf.measure.exhausted")


def imported_by(module: str) -> set[str]:
    """Return the modules of this package that ``module`` imports, and those that they import."""
    todo, known = [module], set()
    while todo:
        name = todo.pop()
        if name in known or not (path := _path_of(name)).exists():
            continue
        known.add(name)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                todo += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return known


def options_in(module: str) -> set[str]:
    """Return the options of pytest that the texts of ``module`` name, without its docstrings."""
    tree = ast.parse(_path_of(module).read_text(encoding="utf-8"))
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return {
        option
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and id(node) not in docstrings
        for option in _OF_PYTEST.findall(node.value if isinstance(node.value, str) else "")
    }


def _path_of(module: str) -> Path:
    path = Path(pytest_dlperf.__file__).parents[1] / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def test_a_log_that_cannot_be_read_has_the_same_remedy_in_judge_as_in_extract(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "a.log"
    log.write_text("".join(f"INFO step {i} loss 2.5 at 617.0\n" for i in range(100)))
    cli.main(["extract", str(log)])
    remedy = "; name its format with --format, or say what a line is with --pattern"
    assert remedy in capsys.readouterr().out
    assert cli.main(["judge", str(log), str(log)]) == 2
    assert remedy in capsys.readouterr().err


def test_an_error_names_the_option_of_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["doctor", "--hosts=nowhere.invalid:1", "--ssh=false"]) in {1, 2}
    text = capsys.readouterr().out
    assert "name ssh's options with --ssh" in text
    assert "--dlperf-" not in text
