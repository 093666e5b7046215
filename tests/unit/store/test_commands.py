"""``dlperf baselines``: what it prints, what it writes, how it exits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_dlperf import cli
from pytest_dlperf.core.baseline import Session, Source
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.verdict import Verdict
from pytest_dlperf.report import json_
from pytest_dlperf.store.baseline import commands
from pytest_dlperf.store.baseline.store import BaselineStore
from tests.helpers.baseline_builders import (
    CASE_ID,
    MACHINE,
    PLACE,
    baseline,
    outcome,
    session,
    write,
)

pytestmark = pytest.mark.newest

PUBLISHED = Path(__file__).parents[3] / "baselines"
V100_16, V100_32 = "8x-v100-sxm2-16gb", "8x-v100-sxm2-32gb"


@pytest.fixture
def store(tmp_path: Path) -> BaselineStore:
    return BaselineStore(tmp_path / "baselines")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results.json"


def accept(store: BaselineStore, results: Path, *arguments: str) -> int:
    folder = f"--baselines={store.root}"
    return cli.main(["baselines", "accept", str(results), folder, *arguments])


def file_of(store: BaselineStore) -> Path:
    return store.root / MACHINE / "tsm" / f"{CASE_ID}.json"


def published() -> Any:
    return baseline(
        Session(time="", runs=(40.5,)),
        conditions=None,
        source=Source(kind="published", document="a report", table="its table"),
    )


@pytest.mark.parametrize(
    ("case_id", "machine_class", "number", "document"),
    [
        ("tsm-paddle-amp-bs16-1n1g", V100_32, "80.222 samples/s", "Paddle TSM performance"),
        ("tsm-paddle-amp-bs16-1n8g", V100_32, "549.176 samples/s", "Paddle TSM performance"),
        ("tsm-paddle-amp-bs16-4n8g", V100_32, "2042.24 samples/s", "Paddle TSM performance"),
        ("tsm-torch-amp-bs16-4n8g", V100_16, "1380.045 samples/s", "NGC PyTorch TSM"),
        ("arcface-paddle-fp32-bs128-1n1g", V100_16, "397.78 samples/s", "PLSC ArcFace"),
        ("arcface-paddle-fp32-bs128-4n8g", V100_16, "11084.53 samples/s", "PLSC ArcFace"),
        ("resnet50-tensorflow-fp32-bs256-1n1g", V100_32, "414.73 images/s", "ResNet50V1.5"),
        ("resnet50-tensorflow-amp-bs256-4n8g", V100_32, "33317.67 images/s", "ResNet50V1.5"),
    ],
)
def test_list_prints_published_numbers_as_printed(
    capsys, case_id, machine_class, number, document
):
    assert cli.main(["baselines", "list", f"--baselines={PUBLISHED}"]) == 0
    (line,) = [row for row in capsys.readouterr().out.splitlines() if row.startswith(case_id)]
    assert machine_class in line
    assert f" {number} " in line
    _, _, source = line.partition("published: ")
    name, _, table = source.partition("; ")
    assert document in name
    assert "github.com/" in name
    assert "row" in table


def test_list_has_every_published_file_and_accuracy_only_where_it_was_stated(capsys):
    assert cli.main(["baselines", "list", "--json", f"--baselines={PUBLISHED}"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["format"] == 1
    published = [row for row in values["baselines"] if row["source"]["kind"] == "published"]
    rows = {row["case_id"]: row for row in published}
    assert len(published) == len(list(PUBLISHED.glob("*/*/*.published.json")))
    full = rows["tsm-paddle-amp-bs16-1n8g"]
    assert (full["throughput"], full["unit"]) == (549.176, "samples")
    assert (full["accuracy_percent"], full["time_to_train_s"]) == (71.0, 22549.33)
    bare = rows["tsm-paddle-amp-bs16-1n1g"]
    assert (bare["accuracy_percent"], bare["time_to_train_s"]) == (None, None)
    assert rows["arcface-paddle-fp32-bs128-4n8g"]["runs"] == 5


def test_list_distinguishes_the_measured_from_the_published(store, capsys):
    store.write(published())
    store.write(baseline(session(), session(30.0, second=1)))
    cli.main(["baselines", "list", f"--baselines={store.root}"])
    heading, first, second = capsys.readouterr().out.splitlines()
    assert heading.split()[0] == "case"
    assert first.split("  ")[-1] == "measured 2026-11-21"
    assert " 30 samples/s  1 run, 2 sessions  " in first
    assert second.split("  ")[-1] == "published: a report; its table"
    assert " 40.5 samples/s  1 run " in second


def test_list_of_an_empty_folder(tmp_path, capsys):
    assert cli.main(["baselines", "list", f"--baselines={tmp_path}"]) == 0
    assert capsys.readouterr().out == "no baselines are stored\n"
    assert cli.main(["baselines", "list", "--json", f"--baselines={tmp_path}"]) == 0
    assert json.loads(capsys.readouterr().out) == {"format": 1, "baselines": []}


def test_a_missing_folder_is_wrong_usage(tmp_path, capsys):
    assert cli.main(["baselines", "list", f"--baselines={tmp_path / 'no'}"]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "is not a directory; name the baselines with --baselines=DIR" in shown.err


def test_a_broken_file_is_unreadable_input(store, capsys):
    store.write(baseline())
    file_of(store).write_text("{", encoding="utf-8")
    for command in (["list"], ["show", "*"], ["prune"]):
        assert cli.main(["baselines", *command, f"--baselines={store.root}"]) == 2
        assert str(file_of(store)) in capsys.readouterr().err


def test_show_prints_the_path_and_the_file(store, capsys):
    store.write(baseline(session(35.5, 35.25, reason="größer")))
    assert cli.main(["baselines", "show", CASE_ID, f"--baselines={store.root}"]) == 0
    path, _, rest = capsys.readouterr().out.partition("\n")
    assert path == str(file_of(store))
    shown = json.loads(rest)
    stored = json.loads(file_of(store).read_text(encoding="utf-8"))
    assert {"format": 1, **shown} == stored


def test_show_takes_a_pattern_and_gives_json(store, capsys):
    store.write(baseline())
    store.write(published())
    store.write(baseline(case_id="tsm.tiny-torch-fp32-bs2-1n1c"))
    folder = f"--baselines={store.root}"
    assert cli.main(["baselines", "show", "*-1n2c", "--json", folder]) == 0
    values = json.loads(capsys.readouterr().out)
    assert [one["source"]["kind"] for one in values["baselines"]] == ["measured", "published"]
    assert values["baselines"][0]["path"] == str(file_of(store))


def test_show_of_an_unknown_case_says_how_to_find_one(store, capsys):
    store.write(baseline())
    assert cli.main(["baselines", "show", "tsm", f"--baselines={store.root}"]) == 2
    assert "no baseline of 'tsm'; dlperf baselines list shows" in capsys.readouterr().err


HISTORIES: dict[str, list[tuple[Outcome, str]]] = {
    "created": [(outcome(verdict=Verdict.NO_BASELINE), "")],
    "appended": [(outcome(), ""), (outcome(35.1, second=1), "")],
    "replaced": [
        (outcome(), ""),
        (outcome(30.0, verdict=Verdict.REGRESSED, second=1), "größer"),
    ],
}


@pytest.mark.parametrize("what", HISTORIES)
def test_accept_gives_the_bytes_of_an_update(tmp_path, store, results, capsys, what):
    other = BaselineStore(tmp_path / "updated")
    for found, reason in HISTORIES[what]:
        before = other.find(*PLACE)
        found = replace(found, baseline_sessions=before.sessions if before else ())
        change = write(other, found, reason=reason)
        json_.write(results, [found])
        capsys.readouterr()
        assert accept(store, results, f"--reason={reason}") == 0
    assert change.what == what
    assert capsys.readouterr().out.splitlines()[0] == change.text
    assert file_of(store).read_bytes() == file_of(other).read_bytes()


def test_accept_twice_changes_nothing(store, results, capsys):
    json_.write(results, [outcome()])
    accept(store, results)
    before = file_of(store).read_bytes()
    assert accept(store, results, "--reason=again") == 0
    assert "stored already" in capsys.readouterr().out
    assert file_of(store).read_bytes() == before


def test_accept_refuses_what_an_update_refuses_and_stores_the_rest(store, results, capsys):
    slower = outcome(30.0, verdict=Verdict.REGRESSED)
    json_.write(results, [slower, outcome(35.5, second=1)])
    assert accept(store, results) == 1
    shown = capsys.readouterr()
    assert shown.err.startswith(f"refused   {CASE_ID}: the verdict is regressed; ")
    assert "--reason=TEXT" in shown.err
    assert shown.out.startswith(f"created   {CASE_ID}  35.5 samples/s")
    assert [s.runs for s in store.find(*PLACE).sessions] == [(35.5,)]


def test_accept_in_json(store, results, capsys):
    json_.write(results, [outcome(verdict=Verdict.ERROR), outcome()])
    assert accept(store, results, "--json", "--reason=x") == 1
    shown = capsys.readouterr()
    assert shown.err == ""
    values = json.loads(shown.out)
    assert values["format"] == 1
    assert [change["what"] for change in values["changes"]] == ["refused", "created"]
    assert {change["case_id"] for change in values["changes"]} == {CASE_ID}


def test_accept_of_no_case_that_fits_is_wrong_usage(store, results, capsys):
    json_.write(results, [outcome()])
    assert accept(store, results, "-k", "arcface") == 2
    assert "holds no case that fits" in capsys.readouterr().err
    assert store.find(*PLACE) is None


@pytest.mark.parametrize("pattern", ["tsm.tiny", "*-1n2c", CASE_ID])
def test_accept_selects_by_part_or_pattern(store, results, pattern):
    json_.write(results, [outcome()])
    assert accept(store, results, "-k", pattern) == 0
    assert store.find(*PLACE) is not None


def test_accept_of_no_results_file(store, tmp_path, capsys):
    assert accept(store, tmp_path / "absent.json") == 2
    assert "absent.json" in capsys.readouterr().err
    (tmp_path / "other.json").write_text('{"tests": 3}', encoding="utf-8")
    assert accept(store, tmp_path / "other.json") == 2
    assert "not a results file of --dlperf-json" in capsys.readouterr().err


def test_accept_into_a_file_is_said_and_no_traceback(tmp_path, results, capsys):
    json_.write(results, [outcome()])
    assert accept(BaselineStore(results), results) == 2
    assert "is not a directory" in capsys.readouterr().err


def test_prune_removes_measured_baselines_of_unknown_cases_only(store):
    gone = baseline(case_id="tsm.tiny-torch-bf16-bs2-1n2c")
    for one in (baseline(), gone, published()):
        store.write(one)
    dry = commands.prune(store, {CASE_ID}, dry_run=True)
    assert [path.name for path in dry] == [f"{gone.case_id}.json"]
    assert len(list(store.all())) == 3
    assert commands.prune(store, {CASE_ID}, dry_run=False) == dry
    kept = [entry.path.name for entry in store.all()]
    assert kept == [f"{CASE_ID}.json", f"{CASE_ID}.published.json"]
    assert commands.prune(store, set(), dry_run=False) == [file_of(store)]


TESTS = """
import pytest

@pytest.mark.dlperf("mymodel:build", framework="torch", layout=["1n1c", "1n2c"],
                    batch_size_per_device=4)
def test_net(dlperf):
    dlperf.run()
"""


@pytest.fixture
def tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (folder / "test_net.py").write_text(TESTS, encoding="utf-8")
    monkeypatch.chdir(folder)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    return folder


def test_prune_asks_pytest_which_cases_there_are(store, tests, capsys):
    # A layout that --gpus or --cpus asked for is no layout of the marker, and still known
    known = "net-torch-fp32-bs4-1n4c"
    for case_id, suite in ((known, "net"), ("net-torch-fp32-bs8-1n2c", "net"), (CASE_ID, "tsm")):
        store.write(baseline(case_id=case_id, suite=suite))
    folder = f"--baselines={store.root}"
    assert cli.main(["baselines", "prune", "--dry-run", "test_net.py", folder]) == 0
    assert "would remove 2 of the baselines" in capsys.readouterr().out
    assert len(list(store.all())) == 3
    assert cli.main(["baselines", "prune", "--json", "test_net.py", folder]) == 0
    removed = [Path(path).stem for path in json.loads(capsys.readouterr().out)["removed"]]
    assert removed == ["net-torch-fp32-bs8-1n2c", CASE_ID]
    assert [entry.baseline.case_id for entry in store.all()] == [known]


@pytest.mark.once
def test_prune_removes_nothing_where_the_tests_cannot_be_collected(store, tests, capsys):
    store.write(baseline())
    (tests / "test_net.py").write_text("import absent_module\n", encoding="utf-8")
    assert cli.main(["baselines", "prune", "test_net.py", f"--baselines={store.root}"]) == 2
    shown = capsys.readouterr().err
    assert "nothing was removed" in shown
    assert "absent_module" in shown
    assert store.find(*PLACE) is not None


def test_state_and_published_texts_of_the_listing():
    assert commands.state_text(None) == "none"
    state = commands.state_text(baseline(session(), session(35.123456)))
    assert state == "35.12 samples/s (2 sessions, measured 2026-11-21)"
    assert commands.published_text([]) == "--"
    assert commands.published_text([published()]) == f"40.5 samples/s ({MACHINE})"


@pytest.mark.parametrize(
    "encoding", ["utf-8", "latin-1", pytest.param("ascii", marks=pytest.mark.nightly)]
)
def test_what_a_terminal_cannot_show_is_escaped(store, encoding):
    store.write(baseline(session(reason=os.fsdecode(b"caf\xe9 \xe5\x90\x9e"))))
    shown = {}
    for form in ("--json", "--"):
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pytest_dlperf.cli", "baselines", "show"),
                *(f"--baselines={store.root}", form, CASE_ID),
            ],
            env={**os.environ, "PYTHONIOENCODING": encoding},
            capture_output=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, b"")
        shown[form] = done.stdout.decode(encoding)
    (found,) = json.loads(shown["--json"])["baselines"]
    assert found["sessions"][0]["reason"] == "caf\udce9 吞"
    assert r'"reason": "caf\udce9 ' in shown["--"]
