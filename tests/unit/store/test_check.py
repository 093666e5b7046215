"""``dlperf baselines check``: what it prints, how it exits."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from pytest_dlperf import cli
from pytest_dlperf.core.baseline import Baseline, ReplacedLevel, Session, Source
from pytest_dlperf.core.metric import StoredFigures
from pytest_dlperf.report import schemas
from pytest_dlperf.store.baseline.store import BaselineStore
from tests.helpers.baseline_builders import CASE_ID, CONDITIONS, MACHINE, baseline, session

pytestmark = pytest.mark.newest

GPU_CASE = "tsm-torch-amp-bs16-1n{}g"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BaselineStore:
    monkeypatch.chdir(tmp_path)
    return BaselineStore(tmp_path / "baselines")


def sessions(
    seed: int, count: int, *, session_sd: float = 0.003, slow: dict[int, float] | None = None
) -> tuple[Session, ...]:
    rng = np.random.default_rng(seed)
    found = []
    for i in range(count):
        rates = 100 * (1 - (slow or {}).get(i, 0)) * np.exp(rng.normal(0, session_sd))
        runs = [float(f"{x:.6g}") for x in rates * np.exp(rng.normal(0, 0.004, 5))]
        day, minute = i + 1, seed % 60
        time = f"2026-11-{day:02}T04:{minute:02}:00Z"
        found.append(Session(time=time, runs=tuple(runs), commit=f"c{i}", node="n1"))
    return tuple(found)


def stored(devices: int, *found: Session, **fields: Any) -> Baseline:
    return baseline(*found, case_id=GPU_CASE.format(devices), **fields)


def check(store: BaselineStore, *arguments: str) -> int:
    return cli.main(["baselines", "check", f"--baselines={store.root}", *arguments])


def checked(store: BaselineStore, capsys: Any, *arguments: str) -> tuple[int, Any]:
    code = check(store, "--json", *arguments)
    values = json.loads(capsys.readouterr().out)
    jsonschema.validate(values, schemas.checked_schema())
    return code, values


def test_a_session_planted_slow_is_named(store, capsys):
    store.write(stored(1, *sessions(1, 6)))
    store.write(stored(8, *sessions(2, 6, slow={3: 0.1})))
    store.write(stored(4, *sessions(3, 2)))
    code, values = checked(store, capsys)
    assert code == 0  # one of six suites is not above 5 % for certain
    one, eight = values["cases"]
    assert (values["baselines"], values["too_few_sessions"]) == (3, 1)
    assert one["metrics"]["throughput"]["alarms"] == []
    (alarm,) = eight["metrics"]["throughput"]["alarms"]
    assert (alarm["time"], alarm["commit"]) == ("2026-11-04T04:02:00Z", "c3")
    assert alarm["change"] == pytest.approx(-0.1, abs=0.02)
    assert one["metrics"]["throughput"]["can_be_certified"]
    assert 0.03 <= one["metrics"]["throughput"]["tolerance"] < 0.06
    assert 0 < one["metrics"]["throughput"]["sees"] < 0.06
    assert one["family"] == 3
    assert values["comparisons"]["alarms"] == 1
    assert values["comparisons"]["tries"] == 12
    # Both cases of a commit are one session of the suite.
    assert values["suite_sessions"]["tries"] == 6
    assert values["suite_sessions"]["rate"] == pytest.approx(1 / 6)
    assert check(store) == 0
    shown = capsys.readouterr().out
    assert "tsm-torch-amp-bs16-1n8g: throughput of the session of 2026-11-04T04:02:00Z" in shown
    assert "(commit c3, node n1) is" in shown
    assert "lower than that of the others" in shown
    assert "gate mode would have raised 1 false alarm in 6 sessions" in shown
    assert "3 measured baselines: 2 judged, 1 not: fewer than 3 sessions" in shown


def test_a_rate_above_alpha_for_certain_exits_with_1(store, capsys):
    # Eight cases of ten sessions; in each of eight sessions another case is slow.
    for i in range(8):
        store.write(stored(i + 1, *sessions(i, 10, slow={i: 0.12})))
    code, values = checked(store, capsys)
    assert (values["comparisons"]["alarms"], values["comparisons"]["tries"]) == (8, 80)
    assert (values["suite_sessions"]["alarms"], values["suite_sessions"]["tries"]) == (8, 10)
    assert values["suite_sessions"]["interval"][0] > 0.05
    assert values["above_alpha"]
    assert code == 1
    assert check(store) == 1
    assert "above alpha for certain" in capsys.readouterr().out
    assert check(store, "--min-effect=20%") == 0


def test_levels_that_were_replaced_are_judged_among_themselves(store, capsys):
    old = tuple(replace(one, runs=tuple(2 * r for r in one.runs)) for one in sessions(1, 4))
    level = ReplacedLevel(
        replaced="2026-11-20T00:00:00Z", reason="new", unit="samples", sessions=old
    )
    store.write(stored(8, *sessions(2, 2), history=(level,)))
    _, values = checked(store, capsys)
    (case,) = values["cases"]
    assert case["sessions"] == 6
    assert case["metrics"]["throughput"]["judged"] == 4
    assert case["metrics"]["throughput"]["alarms"] == []


def test_a_tolerance_that_somebody_set_is_distinguished_from_the_default(store, capsys):
    store.write(stored(8, *sessions(1, 5), tolerance=0.001))
    _, values = checked(store, capsys)
    metric = values["cases"][0]["metrics"]["throughput"]
    assert (metric["tolerance"], metric["tolerance_from"]) == (0.001, "baseline")
    assert not metric["can_be_certified"]
    check(store)
    assert "cannot be certified" in capsys.readouterr().out


@pytest.mark.parametrize("exists", [True, False])
def test_an_empty_folder_is_no_error_and_a_missing_one_is(store, capsys, exists):
    if exists:
        store.root.mkdir()
    assert check(store) == (0 if exists else 2)
    shown = capsys.readouterr()
    if exists:
        assert "0 measured baselines" in shown.out
        assert "store more sessions" in shown.out
        code, values = checked(store, capsys)
        assert (code, values["cases"], values["without_case"]) == (0, [], None)
        assert values["comparisons"]["rate"] is None
    else:
        assert str(store.root) in shown.err


def test_a_broken_file_is_named(store, capsys):
    store.write(stored(1, *sessions(1, 4)))
    store.write(stored(8, *sessions(2, 4)))
    path = store.root / MACHINE / "tsm" / f"{GPU_CASE.format(8)}.json"
    path.write_text(path.read_text(encoding="utf-8").replace("[", "[0.0, ", 1), encoding="utf-8")
    assert check(store, "--json") == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert str(path) in shown.err


@pytest.mark.parametrize("option", ["--alpha=5", "--alpha=0", "--tolerance=x"])
def test_a_share_that_is_none_is_wrong_usage(store, capsys, option):
    store.root.mkdir()
    assert check(store, option) == 2
    assert option.partition("=")[0].removeprefix("--") in capsys.readouterr().err


def test_published_numbers_are_neither_judged_nor_without_a_case(store, tests, capsys):
    number = baseline(
        Session(time="", runs=(40.5, 40.6, 40.4)),
        conditions=None,
        source=Source(kind="published", document="a report", table="its table"),
    )
    store.write(number)
    code, values = checked(store, capsys, str(tests))
    assert (code, values["baselines"], values["without_case"]) == (0, 0, [])


TESTS = """
import pytest

@pytest.mark.dlperf("mymodel:build", framework="torch", layout=["1n1c", "1n2c"],
                    batch_size_per_device=4)
def test_net(dlperf):
    dlperf.run()
"""


@pytest.fixture
def tests(store: BaselineStore, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = Path("perf_tests")
    folder.mkdir()
    Path("pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (folder / "test_net.py").write_text(TESTS, encoding="utf-8")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    return folder


@pytest.mark.once
def test_baselines_without_a_case_are_listed_and_exit_with_1(store, tests, capsys):
    known = baseline(session(), case_id="net-torch-fp32-bs4-1n4c", suite="net")
    store.write(known)
    code, values = checked(store, capsys)
    assert (code, values["without_case"]) == (0, [])
    store.write(baseline(session()))
    code, values = checked(store, capsys, "perf_tests")
    assert code == 1
    (one,) = values["without_case"]
    assert (one["case_id"], one["machine_class"]) == (CASE_ID, MACHINE)
    assert Path(one["path"]).is_file()
    assert check(store) == 1
    assert "no test declares its case; dlperf baselines prune" in capsys.readouterr().out


@pytest.mark.once
@pytest.mark.parametrize("layout", ["1n1c", pytest.param("1n4c", marks=pytest.mark.nightly)])
def test_the_tolerance_of_the_marker_is_the_cases_own(store, tests, capsys, layout):
    path = tests / "test_net.py"
    path.write_text(TESTS.replace("batch_size", 'tolerance="15%", batch_size'), encoding="utf-8")
    case_id = f"net-torch-fp32-bs4-{layout}"
    found = sessions(1, 6, session_sd=0.01)
    store.write(baseline(*found, case_id=case_id, suite="net", tolerance=0.3))

    def tolerance(*arguments: str) -> tuple[float, str, bool]:
        _, values = checked(store, capsys, *arguments)
        metric = values["cases"][0]["metrics"]["throughput"]
        known = values["cases"][0]["is_marker_known"]
        return metric["tolerance"], metric["tolerance_from"], known

    assert tolerance() == (0.15, "marker", True)
    assert tolerance("--tolerance=5%") == (0.05, "command-line", True)
    check(store)
    shown = capsys.readouterr().out
    assert "tolerance: marker" in shown
    assert "is not known" not in shown
    path.write_text(TESTS, encoding="utf-8")
    assert tolerance() == (0.3, "baseline", True)


def test_a_marker_that_nobody_named_is_reported_as_unknown(store, capsys):
    store.write(stored(1, *sessions(1, 5)))
    _, values = checked(store, capsys)
    assert not values["cases"][0]["is_marker_known"]
    assert values["cases"][0]["metrics"]["throughput"]["tolerance_from"] == "default"
    check(store)
    assert "the tolerance in the marker of 1 case is not known" in capsys.readouterr().out
    check(store, "--tolerance=5%")
    assert "is not known" not in capsys.readouterr().out


def set_aside(*found: Session, verdict: str = "regressed") -> tuple[Session, ...]:
    return tuple(
        replace(one, time=one.time.replace("-11-", "-12-"), reason=f"observed: {verdict}")
        for one in found
    )


def test_what_observe_mode_called_regressed_is_an_alarm_and_no_level(store, capsys):
    level = sessions(1, 6)
    slow = set_aside(*sessions(2, 4, slow=dict.fromkeys(range(4), 0.1)))
    store.write(stored(8, *level, *slow))
    store.write(stored(1, *level))
    _, values = checked(store, capsys)
    one, eight = (case["metrics"]["throughput"] for case in values["cases"])
    assert len(eight["alarms"]) == 4
    assert all(alarm["change"] == pytest.approx(-0.1, abs=0.02) for alarm in eight["alarms"])
    assert not any(alarm["only_then"] for alarm in eight["alarms"])
    # Those of the level are judged among themselves, as if nothing had been set aside
    assert (one["judged"], eight["judged"]) == (6, 10)
    assert eight["tolerance"] == one["tolerance"]
    assert (values["suite_sessions"]["alarms"], values["suite_sessions"]["tries"]) == (4, 10)


def test_what_was_called_then_counts_unless_another_rule_is_asked_for(store, capsys):
    level = sessions(1, 6)
    (once,) = set_aside(replace(level[0], time="2026-11-09T04:00:00Z"))
    store.write(stored(8, *level, once))
    _, values = checked(store, capsys)
    (alarm,) = values["cases"][0]["metrics"]["throughput"]["alarms"]
    assert (alarm["time"], alarm["only_then"]) == ("2026-12-09T04:00:00Z", True)
    check(store)
    shown = capsys.readouterr().out
    assert "(commit c0, node n1) was regressed when observe mode measured it: gate" in shown
    assert "gate mode would have raised 1 false alarm in 7 sessions" in shown
    _, values = checked(store, capsys, "--min-effect=2%")
    assert values["comparisons"]["alarms"] == 0


def test_what_observe_mode_called_counts_beside_a_level_of_one_session(store, capsys):
    slow = set_aside(*sessions(2, 4, slow=dict.fromkeys(range(4), 0.1)))
    store.write(stored(8, *sessions(1, 1), *slow))
    _, values = checked(store, capsys)
    assert (values["suite_sessions"]["alarms"], values["suite_sessions"]["tries"]) == (4, 4)


@pytest.mark.parametrize("verdict", ["improved", "known"])
def test_what_gate_mode_lets_pass_is_no_alarm(store, capsys, verdict):
    change = -0.1 if verdict == "improved" else 0.1
    other = set_aside(*sessions(2, 1, slow={0: change}), verdict=verdict)
    store.write(stored(8, *sessions(1, 6), *other))
    _, values = checked(store, capsys)
    assert values["comparisons"]["alarms"] == 0
    assert values["cases"][0]["metrics"]["throughput"]["judged"] == 6 + (verdict == "improved")


def test_where_tests_cannot_be_collected_is_reported(store, tests, capsys):
    store.write(baseline(session()))
    (tests / "test_net.py").write_text("import absent_module\n", encoding="utf-8")
    assert check(store) == 2
    assert "absent_module" in capsys.readouterr().err


def test_a_case_of_another_machine_class_has_a_family_of_its_own(store, capsys):
    store.write(stored(1, *sessions(1, 4)))
    other = replace(CONDITIONS, hardware="other")
    store.write(stored(1, *sessions(2, 4), machine_class="other", conditions=other))
    _, values = checked(store, capsys)
    assert [case["family"] for case in values["cases"]] == [1, 1]
    assert values["suite_sessions"]["tries"] == 8
    _, values = checked(store, capsys, "--family=24")
    assert [case["family"] for case in values["cases"]] == [24, 24]


METRICS = {
    "step_p95": (1.0, "s", "lower"),
    "graph_breaks": (2.0, "", "lower"),
    "tokens_kept": (0.5, "", "higher"),
}


def with_metrics(one: Session, **worse: float) -> Session:
    """The session with three metrics, which differ a little between runs, times ``worse``."""
    found = {
        name: StoredFigures(
            runs=tuple(
                value * worse.get(name, 1.0) * (1.0 if unit == "" else 1 + i / 1000)
                for i, _ in enumerate(one.runs)
            ),
            unit=unit,
            better=better,  # type: ignore[arg-type]
        )
        for name, (value, unit, better) in METRICS.items()
    }
    return replace(one, metrics=found)


def alarms(case: Any) -> dict[str, int]:
    return {name: len(one["alarms"]) for name, one in case["metrics"].items()}


def worse_twice() -> Baseline:
    """Six sessions: the third has more graph breaks, the fifth slower steps and fewer tokens."""
    found = [with_metrics(one) for one in sessions(8, 6)]
    found[2] = with_metrics(found[2], graph_breaks=1.5)
    found[4] = with_metrics(found[4], step_p95=2.0, tokens_kept=0.5)
    return baseline(*found, case_id="net-torch-fp32-bs4-1n1c", suite="net")


@pytest.mark.once
def test_metrics_that_a_marker_gates_are_judged_as_the_gate_does(store, tests, capsys):
    store.write(worse_twice())
    path, gated = tests / "test_net.py", "metrics={'step_p95': '90%', 'tokens_kept': None}, "
    path.write_text(TESTS.replace("batch_size", f"{gated}batch_size"), encoding="utf-8")
    _, values = checked(store, capsys)
    assert alarms(values["cases"][0]) == {"throughput": 0, "step_p95": 1, "tokens_kept": 1}
    given = {name: one["tolerance_from"] for name, one in values["cases"][0]["metrics"].items()}
    assert given["step_p95"] == "marker"
    assert given["tokens_kept"] == "default"
    check(store)
    assert "tokens kept of the session of 2026-11-05T04:08:00Z" in capsys.readouterr().out


def test_of_an_unknown_marker_built_in_metrics_are_gated_as_only_those_are_stored(store, capsys):
    store.write(worse_twice())
    _, values = checked(store, capsys)
    assert alarms(values["cases"][0]) == {"throughput": 0, "graph_breaks": 1, "step_p95": 1}
    assert values["cases"][0]["metrics"]["graph_breaks"]["tolerance"] == 0.0


def test_the_schema_in_the_repository_is_the_one_that_is_made():
    """``python -m pytest_dlperf.report.schemas`` writes it again."""
    assert schemas.file_of("checked").read_text(encoding="utf-8") == schemas.render("checked")
