"""``--dlperf-from-logs``: cases judged by logs in place of training."""

from __future__ import annotations

from typing import Any

import pytest
from fake_suite import Suite

ONE, TWO = "net-torch-fp32-bs4-1n1c", "net-torch-fp32-bs4-1n2c"


def write_log(suite: Suite, name: str, seconds: float, *, count: int = 300) -> None:
    path = suite.path / "logs" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "\n".join(
            f"2022-02-05 04:34:24 [INFO]\t[TRAIN] epoch: 1, iter: {i}/{count}, loss: 0.3371, "
            f"lr: 0.003937, batch_cost: {seconds:.4f}, reader_cost: 0.00020, "
            f"ips: {4 / seconds:.4f} samples/sec | ETA 00:00:22"
            for i in range(10, count + 1, 10)
        ),
        encoding="utf-8",
    )


def run(suite: Suite, *arguments: str) -> tuple[pytest.RunResult, list[dict[str, Any]]]:
    result, outcomes = suite.outcomes("--dlperf-from-logs=logs", *arguments)
    return result, list(outcomes.values())


def test_logs_are_judged_and_nothing_is_started(suite: Suite):
    suite.run("--update-baselines", "--cpus=1,2")
    log = suite.path / "launches"
    suite.env(FAKE_LOG=log)
    _, stored = suite.outcomes("--cpus=1,2")
    log.unlink()
    rate = stored[TWO]["measurement"]["throughput"]
    write_log(suite, f"{TWO}_1.log", 8 / rate)
    result, [outcome] = run(suite)
    assert result.ret == 0
    assert outcome["judgement"]["verdict"] == "passed"
    assert outcome["measurement"]["throughput"] == pytest.approx(rate, rel=1e-3)
    result.stdout.fnmatch_lines(["*no log under*"])
    assert not log.exists()

    write_log(suite, f"{TWO}_1.log", 16 / rate)
    result, [outcome] = run(suite)
    assert result.ret == 1
    assert outcome["judgement"]["verdict"] == "regressed"
    assert outcome["judgement"]["change"] == pytest.approx(-0.5, abs=0.01)


def test_several_logs_are_runs_and_the_layout_of_the_reports_is_known(suite: Suite):
    for number in (1, 2, 3):
        write_log(suite, f"1n1c/net_b4_fp32_{number}.log", 0.5)
    _, [outcome] = run(suite)
    assert outcome["case"]["id"] == ONE
    assert len(outcome["measurement"]["runs"]) == 3
    assert outcome["judgement"]["verdict"] == "no-baseline"


@pytest.mark.parametrize(
    ("name", "count", "message"),
    [
        (f"{ONE}.log", 30, "a number needs 50 of warm-up"),
        ("1n1c/net_b4_fp32_1.log", 30, "a number needs 50 of warm-up"),
    ],
)
def test_logs_that_cannot_be_judged(suite: Suite, name: str, count: int, message: str):
    write_log(suite, name, 0.5, count=count)
    result, [outcome] = run(suite)
    assert result.ret == 1
    assert outcome["judgement"]["verdict"] == "error"
    assert message in outcome["judgement"]["reason"]


def test_a_folder_that_is_not_there_and_baselines_that_logs_do_not_write(suite: Suite):
    result = suite.run("--dlperf-from-logs=nowhere")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (suite.path / "logs").mkdir()
    result = suite.run("--dlperf-from-logs=logs", "--update-baselines")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*only judges logs*"])


def test_two_machine_classes_have_to_be_told_apart(suite: Suite):
    for name in ("a", "b"):
        suite.env(DLPERF_MACHINE_CLASS=name)
        suite.run("--update-baselines", "--cpus=1")
    write_log(suite, f"{ONE}.log", 0.5)
    suite.env(DLPERF_MACHINE_CLASS="")
    _, [outcome] = run(suite)
    assert "there are baselines of a, b" in outcome["judgement"]["reason"]
    suite.env(DLPERF_MACHINE_CLASS="b")
    _, [outcome] = run(suite)
    assert outcome["judgement"]["verdict"] != "error"
