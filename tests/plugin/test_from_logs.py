"""``--dlperf-from-logs``: cases judged by logs in place of training."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers.fake_suite import Suite

pytestmark = pytest.mark.slow  # many sessions; .ci/run has them


ONE, TWO = "net-torch-fp32-bs4-1n1c", "net-torch-fp32-bs4-1n2c"


MMSEG = (
    "2023/05/24 20:17:36 - mmengine - INFO - Iter(train) [{i:5d}/{count}]  lr: 9.9e-03  "
    "eta: 4:44:34  time: {s:.5f}  data_time: 0.0010  memory: 17929  loss: 7.6343"
)
PADDLEVIDEO = (
    "[04/12 10:00:00] epoch:[  1/80 ] train step:{i:<4d} loss: 5.9 lr: 0.02 "
    "batch_cost: {s:.5f} sec, reader_cost: 0.00100 sec, ips: {rate:.5f} instance/sec."
)
#: Which framework writes it cannot be told.
MLPERF = (
    ':::MLLOG {{"event_type": "POINT_IN_TIME", "key": "tracked_stats", "value": '
    '{{"throughput": {rate}}}, "metadata": {{"step": {i}}}}}'
)


def write_log(
    suite: Suite,
    name: str,
    seconds: float,
    *,
    count: int = 300,
    line: str = MMSEG,
    head: str = "",
) -> None:
    path = suite.path / "logs" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    records = (
        line.format(i=i, count=count, s=seconds, rate=4 / seconds)
        for i in range(10, count + 1, 10)
    )
    path.write_text("\n".join([head, *records]), encoding="utf-8")


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
        pytest.param(
            "1n1c/net_b4_fp32_1.log", 30, "a number needs 50 of warm-up", marks=pytest.mark.nightly
        ),
    ],
)
def test_logs_that_cannot_be_judged(suite: Suite, name: str, count: int, message: str):
    write_log(suite, name, 0.5, count=count)
    result, [outcome] = run(suite)
    assert result.ret == 1
    assert outcome["judgement"]["verdict"] == "error"
    assert message in outcome["judgement"]["reason"]


@pytest.mark.parametrize(
    ("name", "head", "message"),
    [
        (f"{TWO}/a/b/run1/train.log", "PADDLE_TRAINERS_NUM   32", "the log says 32 devices"),
        pytest.param(
            f"{TWO}.log",
            "samples_per_gpu=1",
            "the log says a batch of 1 a device",
            marks=pytest.mark.nightly,
        ),
        ("1n2c/net_b4_fp32_1.log", "  fp16 ............ True", "the log says fp16"),
    ],
)
def test_a_log_that_says_it_is_of_another_training(
    suite: Suite, name: str, head: str, message: str
):
    write_log(suite, name, 0.5, head=head)
    result, [outcome] = run(suite)
    assert result.ret == 1
    assert outcome["judgement"]["verdict"] == "error"
    assert message in outcome["judgement"]["reason"]


def test_a_loss_that_came_to_nothing_is_an_error(suite: Suite):
    write_log(suite, f"{ONE}.log", 0.5, line=MMSEG.replace("7.6343", "nan"))
    result, [outcome] = run(suite)
    assert result.ret == 1
    assert outcome["judgement"]["verdict"] == "error"
    assert "is not a finite number" in outcome["judgement"]["reason"]


def test_what_a_program_without_a_unit_counts_its_log_says(suite: Suite):
    suite.write(
        """
        import pytest

        @pytest.mark.dlperf(command=["python", "train.py"], framework="torch", layout="1n1c",
                            batch_size_per_device=4, suite="own", log_format="mmseg")
        def test_own(dlperf):
            dlperf.run()
        """
    )
    write_log(suite, "own-torch-fp32-bs4-1n1c.log", 0.5)
    _, [outcome] = run(suite)
    assert outcome["judgement"]["verdict"] == "no-baseline"
    assert outcome["measurement"]["unit"] == "images"


TWO_FRAMEWORKS = """
import pytest

@pytest.mark.dlperf("w:build", framework={framework!r}, layout="1n1c", batch_size_per_device=4,
                    suite="net")
def test_{framework}(dlperf):
    dlperf.run()
"""


@pytest.mark.nightly  # the gate has its main way
def test_a_log_is_of_the_framework_that_wrote_it(suite: Suite):
    for framework in ("torch", "paddle"):
        suite.write(TWO_FRAMEWORKS.format(framework=framework), name=f"test_{framework}")
    (suite.path / "test_net.py").unlink()
    log = "1n1c/net_b4_fp32_1.log"
    write_log(suite, log, 0.5, line=PADDLEVIDEO)
    _, [outcome] = run(suite)
    assert outcome["case"]["id"] == "net-paddle-fp32-bs4-1n1c"
    assert outcome["judgement"]["verdict"] == "no-baseline"

    write_log(suite, log, 0.5, line=MLPERF)
    result, outcomes = run(suite)
    assert result.ret == 1
    assert [o["judgement"]["verdict"] for o in outcomes] == ["error", "error"]
    assert "does not say which framework" in outcomes[0]["judgement"]["reason"]

    (suite.path / "logs" / log).unlink()
    write_log(suite, f"{ONE}.log", 0.5, line=PADDLEVIDEO)
    _, [outcome] = run(suite)
    assert "a paddlevideo log is of paddle" in outcome["judgement"]["reason"]


def test_a_folder_without_a_log_of_a_case_is_exit_code_1(suite: Suite):
    (suite.path / "logs").mkdir()
    result = suite.run("--dlperf-from-logs=logs")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["no case has a log under *logs: exit code 1"])


@pytest.mark.nightly  # the gate has logs of one machine class
def test_one_of_two_machine_classes_has_to_be_named(suite: Suite):
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
