"""``dlperf judge``: what a side is, and which trainings are the same."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from pytest_dlperf.cli import main
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.layout import Layout
from pytest_dlperf.core.measurement import Conditions, Measurement
from pytest_dlperf.core.outcome import Outcome, results_to_json
from pytest_dlperf.core.run import RunSummary
from pytest_dlperf.core.verdict import Judgement, Verdict
from pytest_dlperf.report import schemas
from tests.helpers.judged_logs import judged, write
from tests.helpers.paddle_lines import paddlevideo, plsc


def published(folder: Path, case_id: str, rate: float, unit: str) -> Path:
    """Write a published baseline as the repository has them: without conditions."""
    values = {
        "case_id": case_id, "conditions": None, "facts": {}, "format": 1, "history": [],
        "machine_class": "8x-v100", "source": {"kind": "published"}, "suite": "x",
        "sessions": [{"runs": [rate], "time": ""}], "tolerance": None, "unit": unit,
    }  # fmt: skip
    path = folder / f"{case_id}.published.json"
    path.write_text(json.dumps(values), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "verdict", "words"),
    [
        ("gpu8_bs16_fp32", "passed", "within"),
        ("gpu8_bs16", "passed", "the log does not report its precision"),
        ("gpu8_bs16_fp16", "incomparable", "precision: fp16, was fp32"),
        ("gpu8_bs32_fp32", "incomparable", "the path says a batch of 32 a device"),
        ("gpu32_bs16_fp32", "incomparable", "devices: 32, was 8"),
    ],
)
def test_a_published_number_is_of_its_case_id(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, verdict: str, words: str
):
    base = published(tmp_path, "hrnet-paddle-fp32-bs16-1n8g", 256.0, "images")
    current = tmp_path / f"now_{name}.log"
    current.write_text(write(tmp_path, "now", 0.5).read_text())
    _, values = judged(capsys, base, current, "--tolerance=10%")
    assert values["verdict"] == verdict
    assert words in values["reason"]


@pytest.mark.parametrize(
    ("unit", "verdict"), [("samples", "passed"), ("clips", "passed"), ("tokens", "incomparable")]
)
def test_samples_are_clips_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], unit: str, verdict: str
):
    base = published(tmp_path, "tsm-paddle-amp-bs16-1n8g", 256.0, unit)
    current = tmp_path / "tsm_gpu8_bs16_amp.log"
    current.write_text("\n".join(paddlevideo(i, 0.5) for i in range(0, 300, 10)))
    _, values = judged(capsys, base, current, "--tolerance=10%")
    assert values["verdict"] == verdict


def test_other_models_of_a_folder_are_other_trainings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    for side, second in (("base", 0.2), ("now", 0.4)):
        (tmp_path / side).mkdir()
        for model, seconds in (("resnet50", 0.5), ("mobilenet", second)):
            for run in (1, 2, 3):
                name = f"{model}_gpu8_bs16_fp32_{run}.log"
                log = write(tmp_path, f"{side}{model}{run}", seconds).read_text()
                (tmp_path / side / name).write_text(log)
    _, values = judged(capsys, tmp_path / "base", tmp_path / "now")
    verdicts = {one["training"].partition("-")[0]: one for one in values["trainings"]}
    assert verdicts["resnet50"]["verdict"] == "passed"
    assert verdicts["mobilenet"]["verdict"] == "regressed"


def test_a_log_counts_once_and_is_no_comparison_with_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    base = write(tmp_path, "base", 0.5)
    _, once = judged(capsys, base, base)
    _, twice = judged(capsys, base, f"{base},{base}")
    assert twice["sees"] == once["sees"]
    assert "both sides are the same file" in once["reason"]
    assert [(p["side"], p["code"]) for p in twice["problems"]] == [("current", "named-twice")]
    assert main(["judge", str(base), f"{base},{base}"]) == 0
    assert "current: named-twice:" in capsys.readouterr().out


def test_a_log_that_contradicts_its_path_is_not_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    base, current = write(tmp_path, "base", 0.5), write(tmp_path, "now", 0.5)
    current.write_text(f"PADDLE_TRAINERS_NUM   32\n{current.read_text()}")
    base.write_text(f"PADDLE_TRAINERS_NUM   32\n{base.read_text()}")
    _, values = judged(capsys, base, current)
    assert values["verdict"] == "incomparable"
    assert "in doubt" in values["reason"]
    assert {p["code"] for p in values["problems"]} == {"world-size-mismatch"}


def test_a_killed_run_is_judged_and_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    base, current = write(tmp_path, "base", 0.5), write(tmp_path, "now", 0.5)
    current.write_text(f"{current.read_text()}\nTerminating with signal 15\n")
    _, values = judged(capsys, base, current)
    assert values["verdict"] == "passed"
    assert ("current", "truncated") in {(p["side"], p["code"]) for p in values["problems"]}


def test_an_implausible_speedup_is_unsteady(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    for side in ("base", "now"):
        for layout, seconds in (("1n1g", 0.5), ("1n8g", 0.05), ("2n8g", 0.2), ("4n8g", 0.05)):
            folder = tmp_path / side / layout
            folder.mkdir(parents=True)
            # PLSC's rate is global: 10 times as much with 8 devices, 4 times from 16 to 32.
            text = "\n".join(plsc(i, seconds) for i in range(0, 200, 10))
            (folder / "r50_b16_fp32_1.log").write_text(text)
    _, values = judged(capsys, tmp_path / "base", tmp_path / "now")
    verdicts = {one["training"]: one for one in values["trainings"]}
    assert verdicts["r50-fp32-bs16-1n1g"]["verdict"] == "passed"
    assert verdicts["r50-fp32-bs16-1n8g"]["verdict"] == "unsteady"
    assert "times the devices" in verdicts["r50-fp32-bs16-1n8g"]["reason"]
    # Slow is what 16 devices were: 32 are no faster than one device allows.
    assert verdicts["r50-fp32-bs16-4n8g"]["verdict"] == "passed"
    assert {p["code"] for p in verdicts["r50-fp32-bs16-4n8g"]["problems"]} >= {
        "implausible-speedup"
    }


def test_logs_of_two_programs_are_no_runs_of_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    for side in ("base", "now"):
        for program, writer in (("a", plsc), ("b", paddlevideo)):
            path = tmp_path / side / program / "1n8g" / "tsm_b16_amp_1.log"
            path.parent.mkdir(parents=True)
            path.write_text("\n".join(writer(i, 0.5) for i in range(0, 200, 10)))
    _, values = judged(capsys, tmp_path / "base", tmp_path / "now")
    assert [one["training"] for one in values["trainings"]] == [
        "a/tsm-amp-bs16-1n8g", "b/tsm-amp-bs16-1n8g",
    ]  # fmt: skip
    both = ",".join(str(path) for path in (tmp_path / "base").rglob("*.log"))
    assert main(["judge", both, both]) == 2
    assert "not runs of one training" in capsys.readouterr().err


def test_listed_logs_of_several_names_are_runs_and_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    base, current = write(tmp_path, "base", 0.5), write(tmp_path, "now", 0.5)
    other = write(tmp_path, "later", 0.5)
    _, values = judged(capsys, base, f"{current},{other}")
    assert values["verdict"] == "passed"
    assert [p["code"] for p in values["problems"]] == ["several-names"]


def test_logs_named_after_case_ids_are_runs_of_their_cases(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    for side in ("base", "now"):
        for layout in ("1n1g", "1n8g"):
            for run in (1, 2):
                path = tmp_path / side / f"toy-paddle-fp32-bs16-{layout}_{run}.log"
                path.parent.mkdir(exist_ok=True)
                path.write_text("\n".join(plsc(i, 0.5) for i in range(0, 200, 10)))
    _, values = judged(capsys, tmp_path / "base", tmp_path / "now")
    assert [one["training"] for one in values["trainings"]] == [
        "toy-paddle-fp32-bs16-1n1g", "toy-paddle-fp32-bs16-1n8g",
    ]  # fmt: skip


def measured(case: Case, rate: float) -> Measurement:
    run = RunSummary(
        throughput=rate,
        estimates={"mean_of_rates": rate, "median_step": rate},
        step_seconds=(), ranks=(), peak_memory_bytes=None, time_to_first_step_s=None, canary={},
        others_cpu_share=None,
    )  # fmt: skip
    conditions = Conditions(
        window=(50, 150), launcher="local", world_size=case.world_size, batch_size_per_device=16,
        unit="images", dtype="float32", data="synthetic", parameter_count=1, input_shapes=(),
        options={}, threads_per_rank=1, host_sharing=False, hardware="x", version=1,
    )  # fmt: skip
    return Measurement(case_id=case.id, unit="images", conditions=conditions, runs=(run,) * 3)


def results(folder: Path, name: str, rates: dict[str, float]) -> Path:
    path = folder / name
    outcomes = []
    for layout, rate in rates.items():
        case = Case(
            suite="toy", framework="torch", precision="fp32", batch_size_per_device=16,
            layout=Layout.parse(layout), workload="toy:build", unit="images",
        )  # fmt: skip
        judgement = Judgement(verdict=Verdict.NO_BASELINE, reason="none")
        at = "2026-07-01T00:00:00Z"
        found = measured(case, rate)
        outcomes.append(Outcome(case=case, judgement=judgement, measurement=found, time=at))
    path.write_text(json.dumps(results_to_json(outcomes)), encoding="utf-8")
    return path


def test_several_cases_of_results_are_a_results_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    base = results(tmp_path, "base.json", {"1n1g": 100.0, "1n8g": 700.0, "4n8g": 2000.0})
    current = results(tmp_path, "now.json", {"1n1g": 100.0, "1n8g": 350.0})
    code, values = judged(capsys, base, current)
    jsonschema.validate(values, json.loads(schemas.file_of("outcomes").read_text()))
    verdicts = [o["judgement"]["verdict"] for o in values["outcomes"]]
    assert (code, verdicts) == (1, ["passed", "regressed", "not-run"])
    judged_file = tmp_path / "judged.json"
    judged_file.write_text(json.dumps(values))
    assert main(["report", str(judged_file)]) == 0
    capsys.readouterr()
    assert judged(capsys, base, judged_file)[0] == 1


def edit(path: Path, layout: str, **fields: object) -> None:
    """Put ``fields`` into the outcome of a results file that has this layout."""
    values = json.loads(path.read_text("utf-8"))
    [one] = [o for o in values["outcomes"] if o["case"]["id"].endswith(layout)]
    one |= fields
    path.write_text(json.dumps(values), encoding="utf-8")


def said(verdict: str, reason: str) -> dict[str, object]:
    """Return a judgement as results files have it."""
    return {"verdict": verdict, "reason": reason, "metrics": {}, "refused": False}


BOTH = {"1n1g": 100.0, "1n8g": 700.0}


@pytest.mark.parametrize("is_measured", [False, True])
@pytest.mark.parametrize("crashed", ["base.json", "now.json"])
@pytest.mark.parametrize("rates", [{"1n1g": 100.0}, BOTH], ids=["alone", "of-two"])
def test_a_case_that_ended_in_an_error_stays_one(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    crashed: str,
    rates: dict[str, float],
    is_measured: bool,
):
    files = [results(tmp_path, name, rates) for name in ("base.json", "now.json")]
    measured = {} if is_measured else {"measurement": None}
    edit(tmp_path / crashed, "1n1g", judgement=said("error", "ValueError: boom"), **measured)
    for more in ((), ("--paired",)):
        code, values = judged(capsys, *files, *more)
        [first, *others] = values.get("outcomes", [{"judgement": values}])
        assert (code, first["judgement"]["verdict"]) == (1, "error")
        assert first["judgement"]["reason"] == f"{tmp_path / crashed}: ValueError: boom"
        assert [one["judgement"]["verdict"] for one in others] == ["passed"] * (len(rates) - 1)


def test_an_error_that_the_base_knows_nothing_of_is_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    base, now = results(tmp_path, "base.json", {"1n1g": 1.0}), results(tmp_path, "now.json", BOTH)
    edit(now, "1n8g", judgement=said("error", "ValueError: boom"), measurement=None)
    code, values = judged(capsys, base, now)
    assert code == 1
    assert values["outcomes"][1]["judgement"]["verdict"] == "error"


@pytest.mark.parametrize(
    ("verdict", "kept"),
    [("not-run", "not-run"), ("inconclusive", "inconclusive"), ("passed", "not-run")],
)
@pytest.mark.parametrize("side", ["base.json", "now.json"])
def test_a_case_that_was_not_measured_keeps_its_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], side: str, verdict: str, kept: str
):
    files = [results(tmp_path, name, BOTH) for name in ("base.json", "now.json")]
    edit(tmp_path / side, "1n8g", judgement=said(verdict, "no GPUs here"), measurement=None)
    code, values = judged(capsys, *files)
    found = values["outcomes"][1]["judgement"]
    assert (code, found["verdict"]) == (0, kept)
    assert found["reason"] == f"{tmp_path / side}: no GPUs here"
    assert judged(capsys, *files, "--strict")[0] == 1


def test_where_nothing_was_measured_it_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    files = [results(tmp_path, name, {"1n1g": 100.0}) for name in ("base.json", "now.json")]
    edit(files[1], "1n1g", judgement=said("not-run", "no GPUs here"), measurement=None)
    assert main(["judge", *map(str, files)]) == 2
    assert "none of its 1 cases was measured" in (text := capsys.readouterr().err)
    assert "not-run: no GPUs here" in text


def test_a_unit_that_was_not_declared_is_the_one_that_was_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    files = [results(tmp_path, name, {"1n1g": 100.0}) for name in ("base.json", "now.json")]
    values = json.loads(files[0].read_text("utf-8"))
    log = tmp_path / "now.log"
    log.write_text("\n".join(plsc(i, 0.5) for i in range(0, 200, 10)))
    for path in files:
        edit(path, "1n1g", case={**values["outcomes"][0]["case"], "unit": ""})
    for sides in (files, (files[0], files[0])):
        _, found = judged(capsys, *sides)
        assert found["verdict"] == "passed"
    assert "unit" not in judged(capsys, files[0], log)[1]["reason"].partition("devices")[0]


def test_a_log_that_cannot_be_read_is_said_what_reads_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    log = tmp_path / "own.log"
    log.write_text("step 1 loss 0.5 100 samples/s\n" * 20)
    assert main(["judge", str(log), str(log)]) == 2
    err = capsys.readouterr().err
    assert main(["extract", str(log)]) == 1
    advice = "; name its format with --format, or say what a line is with --pattern"
    assert advice in err
    assert advice in capsys.readouterr().out


def test_a_baseline_with_a_session_twice_is_no_side(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    base = published(tmp_path, "tsm-paddle-amp-bs16-1n8g", 256.0, "images")
    values = json.loads(base.read_text("utf-8"))
    values["sessions"] = [{"runs": [256.0], "time": "2026-11-21T04:02:00Z"}] * 2
    base.write_text(json.dumps(values), encoding="utf-8")
    assert main(["judge", str(base), str(write(tmp_path, "now", 0.5))]) == 2
    assert f"{base}: sessions[1]: the session of 2026" in capsys.readouterr().err


@pytest.mark.parametrize("ended", ["base.json", "now.json"])
def test_runs_of_a_session_that_was_ended_are_not_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], ended: str
):
    files = [results(tmp_path, name, {"1n1g": 100.0}) for name in ("base.json", "now.json")]
    values = json.loads((tmp_path / ended).read_text("utf-8"))
    values["outcomes"][0] |= {"interrupted": True}
    (tmp_path / ended).write_text(json.dumps(values), encoding="utf-8")
    _, found = judged(capsys, *files)
    assert found["verdict"] == "not-run"


def test_the_schema_of_verdicts_on_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """``python -m pytest_dlperf.report.schemas`` writes it again."""
    assert schemas.file_of("judged").read_text(encoding="utf-8") == schemas.render("judged")
    schema = schemas.judged_schema()
    for side in ("base", "now"):
        for model in ("a", "b"):
            folder = tmp_path / side
            folder.mkdir(exist_ok=True)
            (folder / f"{model}_gpu8_bs16_fp32.log").write_text(
                write(tmp_path, "x", 0.5).read_text()
            )
    _, several = judged(capsys, tmp_path / "base", tmp_path / "now")
    _, alone = judged(capsys, *(next((tmp_path / side).iterdir()) for side in ("base", "now")))
    for values in (several, alone):
        jsonschema.validate(values, schema)
    file = tmp_path / "judged.json"
    file.write_text(json.dumps(several))
    assert main(["judge", str(file), str(file)]) == 2
    assert "verdicts of dlperf judge on logs" in capsys.readouterr().err


@pytest.mark.parametrize(("batch", "verdict"), [(64, "passed"), (128, "incomparable")])
def test_another_batch_by_the_lines_is_another_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], batch: int, verdict: str
):
    for name, work in (("base", 64), ("now", batch)):
        (tmp_path / f"{name}.log").write_text(
            "".join(
                f" iteration {10 * i:8d}/ 300 | elapsed time per iteration (ms): {10.0 * work} | "
                f"global batch size: {work} |\n"
                for i in range(1, 31)
            )
        )
    _, values = judged(capsys, tmp_path / "base.log", tmp_path / "now.log")
    assert values["verdict"] == verdict
    assert ("work of an iteration: 128, was 64" in values["reason"]) == (batch == 128)


@pytest.mark.parametrize(("tokens", "verdict"), [(4096, "passed"), (2048, "incomparable")])
def test_other_tokens_of_an_iteration_are_another_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tokens: int, verdict: str
):
    for name, work in (("base", 4096), ("now", tokens)):
        lines = [f"tokens per iteration will be: {work:,}"]
        lines += [f"iter {i}: loss 5.4830, time {work / 8:.2f}ms, mfu 12.3%" for i in range(200)]
        (tmp_path / f"{name}.log").write_text("\n".join([*lines, ""]))
    _, values = judged(capsys, tmp_path / "base.log", tmp_path / "now.log")
    assert values["verdict"] == verdict


@pytest.mark.parametrize(
    ("head", "line"),
    [
        (
            "tokens per iteration will be: {work:,}",
            "iter {i}: loss 5.48, time {ms:.2f}ms, mfu 12%",
        ),
        (
            "",
            " iteration {i:8d}/ 300 | elapsed time per iteration (ms): {ms} | "
            "global batch size: {work} |",
        ),
        (
            "  seq_length ...................................... {work}",
            " iteration {i:8d}/ 300 | elapsed time per iteration (ms): {ms} | "
            "global batch size: 512 |",
        ),
        (
            "[titan] config: seq_len={work}",
            " iteration {i:8d}/ 300 | elapsed time per iteration (ms): {ms} | "
            "global batch size: 512 |",
        ),
    ],
)
@pytest.mark.parametrize("now", [4096, 2048])
def test_iterations_of_other_work_are_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], head: str, line: str, now: int
):
    for name, work in (("base", 4096), ("now", now)):
        lines = [head.format(work=work)]
        lines += [line.format(i=i, ms=work / 8, work=work) for i in range(1, 201)]
        (tmp_path / f"{name}.log").write_text("\n".join([*lines, ""]))
    files = (tmp_path / "base.log", tmp_path / "now.log")
    _, values = judged(capsys, *files, "--unit=iterations")
    assert values["verdict"] == ("passed" if now == 4096 else "incomparable")
    assert ("2048, was 4096" in values["reason"]) == (now == 2048)


def test_sequences_of_another_length_are_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    for name, length in (("base", 4096), ("now", 2048)):
        lines = [f"  seq_length ............................ {length}"]
        lines += [
            f" iteration {i:8d}/ 300 | elapsed time per iteration (ms): {length / 8} | "
            "global batch size: 512 |"
            for i in range(1, 201)
        ]
        (tmp_path / f"{name}.log").write_text("\n".join([*lines, ""]))
    _, values = judged(capsys, tmp_path / "base.log", tmp_path / "now.log")
    assert values["verdict"] == "incomparable"
    assert "sequence length: 2048, was 4096" in values["reason"]
