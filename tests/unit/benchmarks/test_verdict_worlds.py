"""``python -m benchmarks.verdict_worlds``: worlds of a file before both stages of the verdict."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import verdict_worlds
import worlds
from verdict_rules.simple import SIMPLE_RULES

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[3]
SIM = Path(os.environ.get("DLPERF_SHARED", ROOT.parent / "shared")) / "sim" / "stored.py"
KEYS = [
    "world", "sessions", "slow", "suites_with_an_alarm", "found", "passed", "open", "to_pairs",
    "pairs_used",
]  # fmt: skip
QUIET = """
import numpy as np

def quiet(rng, cases, sessions):
    def noise(*shape):
        return 0.001 * rng.standard_normal(shape)
    # Sessions differ by more than runs, so that now is always among them.
    days = 0.002 * (-1) ** np.arange(sessions)
    return days[:, None] + noise(cases, sessions, 5), noise(cases, 20), noise(cases, 20)

def machine_slower(rng, cases, sessions):
    stored, now, pairs = quiet(rng, cases, sessions)
    return stored, now - 0.2, pairs

def pairs_vary(rng, cases, sessions):
    stored, now, pairs = quiet(rng, cases, sessions)
    return stored, now - 0.2, pairs + np.tile([0.3, -0.3], 10)

WORLDS = {"quiet": quiet, "machine slower": machine_slower, "noisy pairs": pairs_vary}
"""
#: The world returns the arrays of a quiet one, changed by ``change``.
BAD = """
import numpy as np

def world(rng, cases, sessions):
    stored, now = np.zeros((cases, sessions, 5)), np.zeros((cases, 20))
    pairs = np.zeros((cases, 20))
    {change}
    return stored, now, pairs

WORLDS = {{"odd": world}}
"""


def lines(
    capsys: pytest.CaptureFixture[str], file: Path, *arguments: str
) -> list[dict[str, float]]:
    few = ("--suites=3", "--cases=4", "--json")
    assert verdict_worlds.main([str(file), *few, *arguments]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.fixture
def quiet(tmp_path: Path) -> Path:
    file = tmp_path / "quiet.py"
    file.write_text(QUIET, encoding="utf-8")
    return file


def test_each_world_and_slowdown_has_a_line(
    capsys: pytest.CaptureFixture[str], quiet: Path
) -> None:
    found = lines(capsys, quiet, "--sessions=1,10", "--slow=0,10%")
    assert [list(one) for one in found] == [KEYS] * 12
    assert [(one["world"], one["sessions"], one["slow"]) for one in found] == [
        (world, sessions, slow)
        for sessions in (1, 10)
        for world in ("quiet", "machine slower", "noisy pairs")
        for slow in (0.0, 0.1)
    ]


def test_stored_sessions_pass_what_they_certify_and_pairs_decide_the_rest(
    capsys: pytest.CaptureFixture[str], quiet: Path
) -> None:
    unchanged, slower, *moved = lines(
        capsys, quiet, "--sessions=10", "--slow=0,10%", "--tolerance=5%"
    )
    said = ("suites_with_an_alarm", "found", "passed", "open", "to_pairs")
    assert [unchanged[name] for name in said] == [0, 0, 1, 0, 0]
    assert unchanged["pairs_used"] == 0
    assert [slower[name] for name in said] == [1, 1, 0, 0, 1]
    assert slower["pairs_used"] == 5, "the first look never fails a case"
    assert [moved[0][name] for name in said] == [0, 0, 1, 0, 1]
    assert moved[0]["pairs_used"] == 3
    assert [moved[1][name] for name in said] == [1, 1, 0, 0, 1]
    assert [moved[2][name] for name in said] == [0, 0, 0, 1, 1]
    assert moved[2]["pairs_used"] == 10, "so many a session measures at most"


def test_one_stored_session_certifies_nothing_by_itself(
    capsys: pytest.CaptureFixture[str], quiet: Path
) -> None:
    found = lines(capsys, quiet, "--worlds=quiet", "--slow=0")
    assert [(one["passed"], one["to_pairs"]) for one in found] == [(1, 1)]


def test_without_pairs_stored_sessions_judge_alone(
    capsys: pytest.CaptureFixture[str], quiet: Path
) -> None:
    found = lines(capsys, quiet, "--worlds=slower", "--sessions=10", "--slow=0", "--without-pairs")
    assert [(one["found"], one["to_pairs"]) for one in found] == [(1, 0)]


def test_slower_code_is_in_the_runs_and_pairs_of_now_with_the_same_noise(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "faster.py"
    file.write_text(
        QUIET + "def fast(*a):\n    stored, now, pairs = quiet(*a)\n"
        "    return stored, now - np.log(0.9), pairs - np.log(0.9)\nWORLDS = {'fast': fast}\n",
        encoding="utf-8",
    )
    by_world = lines(capsys, file, "--slow=10%", "--sessions=10")[0]
    assert (by_world["passed"], by_world["to_pairs"]) == (1, 0), "10 % faster and 10 % slower"
    again = lines(capsys, file, "--slow=10%", "--sessions=10")[0]
    assert again == by_world


def test_simple_rules_are_asked_beside_it(capsys: pytest.CaptureFixture[str], quiet: Path) -> None:
    found = lines(
        capsys, quiet, "--worlds=quiet", "--sessions=10", "--slow=0,10%", "--peers", "--suites=1"
    )
    unchanged, slower = (one["simple_rules"] for one in found)
    assert list(unchanged) == list(SIMPLE_RULES)  # type: ignore[call-overload]
    for name in SIMPLE_RULES:
        assert slower[name] == {"suites_with_an_alarm": 1, "found": 1}, name  # type: ignore[index]
    assert unchanged["5 % of the mean"]["found"] == 0  # type: ignore[index]


def test_the_table_has_the_same_shares(capsys: pytest.CaptureFixture[str], quiet: Path) -> None:
    arguments = [str(quiet), "--suites=2", "--cases=2", "--worlds=quiet", "--slow=10%"]
    assert verdict_worlds.main(arguments) == 0
    row = capsys.readouterr().out.splitlines()[-1].split()
    assert row == [
        "1",
        "10.0",
        "100.0",
        "[16,",
        "100]",
        "100.0",
        "0.0",
        "0.0",
        "100.0",
        "5.0",
        "quiet",
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("now = now[:, :19]", "world 'odd': runs of now have the shape (2, 19), not (2, 20)"),
        ("stored = stored[0]", "stored runs have the shape (3, 5), not (2, 3, 5)"),
        ("pairs[1, 2] = np.nan", "differences of pairs are to be natural logs"),
        ("now += 400", "a value is 400.0"),
        ("return stored, now", "return three arrays: stored runs (2, 3, 5)"),
        ("now = 'none'", "runs of now are not numbers"),
    ],
)
def test_arrays_that_no_world_has(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, change: str, message: str
) -> None:
    file = tmp_path / "odd.py"
    file.write_text(BAD.format(change=change), encoding="utf-8")
    with pytest.raises(SystemExit) as refused:
        verdict_worlds.main([str(file), "--cases=2", "--sessions=3", "--suites=1"])
    assert refused.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "WORLDS is to be a dict of functions by name, at least one; it is not there"),
        ("WORLDS = {}", "it is {}"),
        ("WORLDS = [print]", "it is [<built-in"),
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        (None, "there is no such file"),
    ],
)
def test_files_without_worlds(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str | None, message: str
) -> None:
    file = tmp_path / "file.py"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    with pytest.raises(SystemExit) as refused:
        verdict_worlds.main([str(file)])
    assert refused.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--sessions=0", "give a whole number, 1 or more"),
        ("--slow=5", "write 5% instead"),
        ("--slow=100%", "give a share below 100 %"),
        ("--worlds=loud", "none of quiet, machine slower, noisy pairs"),
    ],
)
def test_options_that_mean_nothing(
    capsys: pytest.CaptureFixture[str], quiet: Path, argument: str, message: str
) -> None:
    with pytest.raises(SystemExit) as refused:
        verdict_worlds.main([str(quiet), argument])
    assert refused.value.code == 2
    assert message in capsys.readouterr().err


def test_the_command_of_the_readme(quiet: Path) -> None:
    done = subprocess.run(
        [
            sys.executable, "-m", "benchmarks.verdict_worlds", str(quiet), "--sessions=1",
            "--suites=2", "--slow=0,5%", "--tolerance=5%", "--worlds=quiet", "--json",
        ],
        check=False, cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(one["slow"], one["passed"], one["found"]) for one in found] == [
        (0.0, 1.0, 0.0),
        (0.05, 0.0, 1.0),
    ]


@pytest.mark.parametrize("name", worlds.WORLDS)
def test_worlds_of_this_repository_draw_what_is_asked_for(name: str) -> None:
    for sessions in (1, 3):
        arrays = worlds.WORLDS[name](np.random.default_rng(1), 4, sessions)
        checked = verdict_worlds.drawn(name, arrays, 4, sessions)
        assert all(array.std() > 0 for array in checked)


def test_sessions_and_arms_differ_by_as_much_as_their_names_say() -> None:
    rng = np.random.default_rng(2)
    stored, _, pairs = worlds.WORLDS["runs 0.5 %, sessions 3 %; pairs 2 %"](rng, 400, 10)
    assert np.median(stored, axis=2).std() == pytest.approx(0.03, rel=0.05)
    assert stored.std(axis=2, ddof=1).mean() == pytest.approx(0.005, rel=0.1)
    assert pairs.std() == pytest.approx(0.02, rel=0.05)
    offset = worlds.WORLDS["runs 0.5 %, sessions 3 %; arm's own offset 1 %, pairs 1.3 %"](
        rng, 400, 1
    )[2].mean(axis=1)
    assert offset.std() == pytest.approx(np.hypot(0.01, 0.013 / np.sqrt(20)), rel=0.1)
    slow = worlds.WORLDS["a slow mode in one session of six; pairs 1.3 %"](rng, 400, 6)[0]
    assert (np.median(slow, axis=2) < -0.05).mean() == pytest.approx(1 / 6, abs=0.02)
    memory = worlds.WORLDS["runs 0.5 %, sessions 3 %; pairs remember (AR 0.8), 2 %"](rng, 400, 1)[
        2
    ]
    assert np.corrcoef(memory[:, :-1].ravel(), memory[:, 1:].ravel())[0, 1] == pytest.approx(
        0.8, abs=0.03
    )


@pytest.mark.skipif(not SIM.is_file(), reason=f"{SIM} is not there: worlds of others")
def test_worlds_of_others_are_judged(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Those of ``stored.py``, with runs of now as many as the command asks for."""
    file = tmp_path / "others.py"
    file.write_text(
        "import numpy as np\nfrom pathlib import Path\n"
        f"source = Path({str(SIM)!r}).read_text().partition('def simulate')[0]\n"
        "source = source.replace('from common import *', '').replace('(K, 10)', '(K, 20)')\n"
        "exec(source)\n"
        "def world(kind):\n"
        "    def draw(rng, cases, sessions):\n"
        "        stored, now, _ = noise(kind, rng, sessions, 1.0)\n"
        "        return stored, now, 0.013 * rng.standard_normal((cases, 20))\n"
        "    return draw\n"
        "WORLDS = {kind: world(kind) for kind in KINDS}\n",
        encoding="utf-8",
    )
    found = lines(capsys, file, "--suites=2", "--cases=10", "--slow=0,10%")
    assert len(found) == 28
    for one in found:
        if one["slow"]:
            assert (one["found"], one["open"]) == (1, 0), one["world"]
        else:
            assert (one["passed"], one["suites_with_an_alarm"]) == (1, 0), one["world"]
