"""Verdicts on plain numbers, by the command line."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from pytest_dlperf.cli import main
from pytest_dlperf.report import schemas

BEFORE = [[100.0, 101.0, 99.5], [100.2, 100.9, 99.9], [99.0, 100.5, 100.0]]


def write(folder: Path, name: str, runs: Any, **fields: Any) -> Path:
    path = folder / f"{name}.json"
    values = {"unit": "samples/s", "sessions": [{"runs": one} for one in runs]} | fields
    path.write_text(json.dumps(values), encoding="utf-8")
    return path


def judged(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict[str, Any]]:
    code = main(["judge", *map(str, arguments), "--json"])
    captured = capsys.readouterr()
    assert captured.err == ""
    values = json.loads(captured.out)
    jsonschema.validate(values, schemas.judged_schema())
    return code, values


@pytest.mark.parametrize(
    ("now", "verdict", "code"),
    [([94.0, 95.0, 94.6], "regressed", 1), ([100.1, 99.8, 100.3], "passed", 0),
     ([110.0, 110.5, 109.8], "improved", 0), ([98.6, 98.2, 98.9], "inconclusive", 0)],
)  # fmt: skip
def test_sessions(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    now: list[float],
    verdict: str,
    code: int,
) -> None:
    base, current = write(tmp_path, "base", BEFORE), write(tmp_path, "now", [now])
    found, values = judged(capsys, base, current, "--tolerance=2%", "--family=24")
    assert (found, values["verdict"]) == (code, verdict)
    assert values["change"] == pytest.approx(values["now"] / values["before"] - 1)
    assert values["interval"][0] < values["change"] < values["interval"][1]
    assert 0 <= values["p_regressed"] <= 1
    assert (values["p_passed"] <= 0.05) is (verdict in {"passed", "improved"})
    assert values["provisional"] is False


def test_pairs_see_through_what_the_machine_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(1)
    machine = rng.normal(0, 0.1, 10)
    before, now = (
        [
            [
                100 * math.exp(m + e)
                for m, e in zip(machine, rng.normal(shift, 0.005, 10), strict=True)
            ]
        ]
        for shift in (0, -0.05)
    )
    base, current = write(tmp_path, "base", before), write(tmp_path, "now", now)
    assert judged(capsys, base, current, "--family=24")[1]["verdict"] != "regressed"
    code, values = judged(capsys, base, current, "--family=24", "--paired")
    assert (code, values["verdict"]) == (1, "regressed")
    assert values["change"] == pytest.approx(-0.05, abs=0.01)


@pytest.mark.parametrize("rate", [0, -1.0, math.nan, math.inf, int("9" * 400)])
@pytest.mark.parametrize("side", ["base", "now"])
def test_a_rate_that_can_be_none_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rate: float, side: str
) -> None:
    sides = {"base": BEFORE, "now": [[100.0, 99.0]]}
    paths = {name: write(tmp_path, name, runs) for name, runs in sides.items()}
    write(tmp_path, side, [[100.0, rate]])
    code, values = judged(capsys, paths["base"], paths["now"])
    assert (code, values["verdict"]) == (1, "error")
    assert "is not a throughput" in values["reason"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"sessions": []}, "sessions: not a list with a session in it"),
        ({"sessions": [{"runs": []}]}, "sessions[0].runs: not a list with a rate in it"),
        ({"sessions": [{"runs": ["fast"]}]}, "sessions[0].runs[0]: 'fast' is not a number"),
        ({"sessions": [{"runs": [True]}]}, "sessions[0].runs[0]: True is not a number"),
        ({"sessions": [3]}, "sessions[0].runs: not a list"),
        ({"unit": 3}, "unit: 3 is not a text"),
        ({"sessions": [{"runs": [1], "unit": "tokens/s"}]}, "sessions[0].unit: 'tokens/s'"),
    ],
)
def test_a_file_that_is_no_numbers_is_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], fields: dict[str, Any], words: str
) -> None:
    base, current = write(tmp_path, "base", BEFORE), write(tmp_path, "now", BEFORE, **fields)
    assert main(["judge", str(base), str(current)]) == 2
    assert words in capsys.readouterr().err


def test_other_units_are_incomparable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base, current = (
        write(tmp_path, "base", BEFORE),
        write(tmp_path, "now", BEFORE, unit="tokens/s"),
    )
    assert judged(capsys, base, current)[1]["verdict"] == "incomparable"


def test_pairs_need_as_many_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base, current = write(tmp_path, "base", BEFORE), write(tmp_path, "now", [[100.0]])
    assert main(["judge", str(base), str(current), "--paired"]) == 2
    assert "pairs need the same number on both sides" in capsys.readouterr().err


def test_one_run_a_side_is_provisional(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base, current = write(tmp_path, "base", [[100.0]]), write(tmp_path, "now", [[97.0]])
    _, values = judged(capsys, base, current, "--tolerance=1%")
    assert values["verdict"] == "inconclusive"
    assert values["provisional"] is True
    assert values["runs_needed"] is None, "the one stored run limits it"


def test_a_baseline_without_variance_certifies_no_less_than_the_noise_that_is_believed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base, current = (
        write(tmp_path, "base", [[100.0] * 5] * 5),
        write(tmp_path, "now", [[100.0] * 5]),
    )
    _, values = judged(capsys, base, current, "--tolerance=3%")
    assert values["verdict"] == "passed"
    assert values["sees"] > 0.01


def test_ten_thousand_sessions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(2)
    many = [[float(x) for x in row] for row in 100 * np.exp(rng.normal(0, 0.01, (10_000, 3)))]
    base, current = write(tmp_path, "base", many), write(tmp_path, "now", [[93.0, 93.2, 92.9]])
    _, values = judged(capsys, base, current)
    assert values["verdict"] == "regressed"
    assert values["before"] == pytest.approx(100, rel=1e-3)
