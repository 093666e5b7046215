"""What the log of a program of its own says: a measurement, or an error that says what to do."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from pytest_dlperf.core.errors import CaseError, UsageError
from pytest_dlperf.core.log_pattern import pattern
from pytest_dlperf.core.option_names import command_options
from pytest_dlperf.core.protocol import Protocol
from pytest_dlperf.core.run import TimedTurn
from pytest_dlperf.flow import user_program
from pytest_dlperf.flow.log_unit import check_unit, known_unit, logged_batch
from pytest_dlperf.flow.user_program import cut_log, is_warm, summarise_program
from pytest_dlperf.launch.process import run_logs
from tests.helpers.frozen_log import SECONDS as FROZEN
from tests.helpers.frozen_log import Program
from tests.helpers.record_files import case, write

OWN = r"it (?P<step>\d+) loss (?P<loss>\S+) (?P<rate>\S+) it/s"


def line(i: int, *, loss: str = "1.5", rate: str = "8.0") -> str:
    return f"it {i} loss {loss} {rate} it/s"


def paddlevideo(i: int, *, loss: str = "1.5", rate: str = "8.0") -> str:
    return (
        f"[04/12 10:00:00] epoch:[  1/80 ] train step:{i:<4d} loss: {loss} lr: 0.02 "
        f"batch_cost: 0.50000 sec, reader_cost: 0.00100 sec, ips: {rate} instance/sec."
    )


def timed(i: int, *, seconds: str = "8.0") -> str:
    return f"it {i} took {seconds}"


def read(folder: Path, lines: list[str], layout: str = "1n1c", **keys: Any) -> tuple[float, str]:
    """Return the throughput and the unit of a program that printed these lines."""
    run = write(folder, [])
    Path(run.log).write_text("".join(f"{text}\n" for text in lines), encoding="utf-8")
    program = case(layout, command=["python", "x.py"], **keys)
    check_unit(program)
    summary, facts = summarise_program(program, run)
    return summary.throughput, facts["unit"]


@pytest.mark.parametrize("loss", ["nan", "-inf", "NaN,", "tensor(nan,", "Infinity"])
def test_a_users_loss_that_is_no_number_is_an_error(tmp_path: Path, loss: str):
    lines = [line(i, loss=loss if i > 15 else "1.5") for i in range(1, 21)]
    with pytest.raises(CaseError, match="the last loss in the log is not a finite number"):
        read(tmp_path, lines, log_format=pattern(OWN))


@pytest.mark.parametrize("loss", ["nan", "inf"])
@pytest.mark.parametrize("count", [20, 3000])
def test_a_known_formats_loss_that_is_no_number_is_an_error(tmp_path: Path, loss: str, count: int):
    lines = [paddlevideo(i, loss=loss if i > 15 else "1.5") for i in range(count)]
    with pytest.raises(CaseError, match="the last loss in the log is not a finite number"):
        read(tmp_path, lines, log_format="paddlevideo")


def test_a_loss_that_came_back_is_none(tmp_path: Path):
    """Mixed precision skips a step whose loss overflows."""
    lines = [line(i, loss="nan" if i == 12 else "1.5") for i in range(1, 21)]
    assert read(tmp_path, lines, log_format=pattern(OWN)) == (pytest.approx(8), "samples")


SECONDS = pattern(r"it (?P<step>\d+) took (?P<seconds>\S+)")
#: One each step, of 4 samples; 8 seconds.
OF_TOKENS = {"log_format": SECONDS, "unit": "tokens"}


def test_seconds_are_counted_by_the_work_of_the_marker(tmp_path: Path):
    assert read(tmp_path, TIMED, log_format=SECONDS, unit="images") == (0.5, "images")
    assert read(tmp_path, TIMED, **OF_TOKENS, work=512) == (64, "tokens")


def test_an_iteration_is_one_whatever_its_batch(tmp_path: Path):
    declared = pattern(SECONDS.regex, unit="iterations")
    assert read(tmp_path, TIMED, log_format=declared) == (1 / 8, "iterations")


def test_milliseconds_are_a_thousand_to_the_second(tmp_path: Path):
    """Iterations of 8 s, written as 8 ms."""
    declared = pattern(SECONDS.regex.replace("P<seconds>", "P<milliseconds>"))
    assert read(tmp_path, TIMED, log_format=declared, unit="images") == (
        pytest.approx(500),
        "images",
    )
    with pytest.raises(UsageError, match="has seconds and milliseconds; give one of them"):
        pattern(r"(?P<step>\d+) (?P<seconds>\d+) (?P<milliseconds>\d+)")


def test_seconds_are_no_tokens_where_nothing_says_how_many(tmp_path: Path):
    with pytest.raises(CaseError, match=r"how many tokens .* batch of 4 counts samples.*\(work="):
        read(tmp_path, TIMED, **OF_TOKENS)
    with pytest.raises(CaseError, match="how many tokens"):
        logged_batch(case("1n1c", command=["python", "x.py"], **OF_TOKENS))


def nanogpt_line(i: int) -> str:
    return f"iter {i}: loss 5.4830, time 500.00ms, mfu 12.34%"


TOKENS_OF_ALL = "tokens per iteration will be: 491,520"


def test_a_batch_of_samples_is_no_batch_of_tokens(tmp_path: Path):
    """It is what the log says, or the marker; nanoGPT prints times alone."""
    lines = [nanogpt_line(i) for i in range(20)]
    with pytest.raises(CaseError, match=r"how many tokens one has: a batch counts.*\(work=...\)"):
        read(tmp_path, lines, log_format="nanogpt")
    with pytest.raises(CaseError, match="how many tokens one has"):
        read(tmp_path, lines)
    assert read(tmp_path, [TOKENS_OF_ALL, *lines], log_format="nanogpt") == (983_040, "tokens")
    assert read(tmp_path, lines, log_format="nanogpt", work=1024) == (2048, "tokens")


def test_turns_of_a_log_need_the_tokens_of_an_iteration(tmp_path: Path):
    log, turns = Program(iterations=400).log()
    run = write(tmp_path, [])
    # As many bytes, of a number without a unit
    Path(run.log).write_bytes(log.replace(b" s\n", b"  \n"))
    timed = tuple(
        TimedTurn(
            turn.number, {"output.log": turn.end}, turn.seconds, counts=6 <= turn.number <= 30
        )
        for turn in turns
    )
    rates = pattern(FROZEN.regex.removesuffix(" s").replace("seconds", "rate"), unit="tokens")
    program = replace(
        case("1n1c", command=["python", "x.py"], log_format=rates),
        protocol=Protocol(iterations=390, warmup=50),
    )
    with pytest.raises(CaseError, match="need the tokens of an iteration"):
        summarise_program(program, replace(run, timed_turns=timed))


LINES = [line(i) for i in range(1, 21)]
TIMED = [timed(i) for i in range(1, 21)]
CLIPS = [paddlevideo(i) for i in range(20)]


@pytest.mark.parametrize(
    ("lines", "keys", "unit"),
    [
        (LINES, {"log_format": pattern(OWN, unit="images")}, "images"),
        (LINES, {"log_format": pattern(OWN), "unit": "tokens"}, "tokens"),
        (LINES, {"log_format": pattern(OWN, unit="images"), "unit": "images"}, "images"),
        (CLIPS, {"log_format": "paddlevideo"}, "clips"),
        (CLIPS, {"log_format": "paddlevideo", "unit": "clips"}, "clips"),
        (CLIPS, {}, "clips"),
    ],
)
def test_the_unit_is_the_logs_unless_the_marker_says_it(
    tmp_path: Path, lines: list[str], keys: dict[str, Any], unit: str
):
    assert read(tmp_path, lines, **keys) == (pytest.approx(8), unit)


@pytest.mark.parametrize(
    ("lines", "keys"),
    [
        (LINES, {"log_format": pattern(OWN, unit="images"), "unit": "tokens"}),
        (CLIPS, {"log_format": "paddlevideo", "unit": "samples"}),
        (CLIPS, {"unit": "samples"}),
    ],
)
def test_another_unit_than_the_logs_is_an_error(
    tmp_path: Path, lines: list[str], keys: dict[str, Any]
):
    with pytest.raises(CaseError, match=rf"counts in '{keys['unit']}', and the log that it reads"):
        read(tmp_path, lines, **keys)


@pytest.mark.parametrize(
    ("lines", "keys", "words"),
    [
        (["hello"], {}, "or a time stamp that is known with a step. Say in the marker"),
        (["hello"], {"log_format": "plsc"}, "no line is a record of the format 'plsc'"),
        (
            [line(i, rate="0.0") for i in range(20)],
            {"log_format": pattern(OWN)},
            "20 iterations are in the log: none has a rate or a time that is a number above 0",
        ),
        (
            LINES[:15],
            {"log_format": pattern(OWN)},
            "15 iterations are in the log; a number needs 10 of warm-up and 10 more",
        ),
        (
            [line(i) for i in (1, 16, 31)],
            {"log_format": pattern(OWN)},
            "no print is wholly within steps 11 to 20; print more often",
        ),
        (CLIPS[:15], {}, "it looks like the format 'paddlevideo'"),
    ],
)
def test_a_log_without_a_number_says_why_and_what_to_do(
    tmp_path: Path, lines: list[str], keys: dict[str, Any], words: str
):
    with pytest.raises(CaseError) as caught:
        read(tmp_path, lines, **keys)
    text = str(caught.value)
    assert words in text
    assert 'log_format=pattern(r"…")' in text
    assert "--" not in text, "options of dlperf extract are no use in a test"


def test_a_log_of_a_trainer_names_its_callback(tmp_path: Path):
    with pytest.raises(CaseError) as caught:
        read(tmp_path, ["started"], log_format="huggingface")
    advice = "mark the steps with pytest_dlperf.mark.huggingface.StepCallback."
    assert advice in str(caught.value)


def test_a_command_names_its_own_option_in_place_of_the_marker(tmp_path: Path):
    run = write(tmp_path, [])
    program = case("1n1c", command=["python", "x.py"])
    options = command_options(frozenset({"--log-format"}))
    with pytest.raises(CaseError) as caught:
        summarise_program(program, run, options)
    advice = "Name its format with --log-format, or mark the steps with pytest_dlperf.mark.step."
    assert advice in str(caught.value)
    assert "marker" not in str(caught.value)


def test_a_nodes_rate_is_scaled_by_the_layout(tmp_path: Path):
    rate, _ = read(tmp_path, LINES, log_format=pattern(OWN, scope="node"))
    assert rate == pytest.approx(8)


@pytest.mark.parametrize(
    ("keys", "unit"),
    [
        ({"unit": "faces"}, "faces"),
        ({"log_format": pattern(OWN, unit="images")}, "images"),
        ({"log_format": pattern(OWN)}, "samples"),
        ({"log_format": "megatron"}, "sequences"),
        ({}, "samples"),
    ],
)
def test_the_unit_that_progress_shows(keys: dict[str, Any], unit: str):
    assert known_unit(case("1n1c", command=["python", "x.py"], **keys)) == unit


@pytest.mark.parametrize(("parallel", "rate"), [("ddp", 32), ("tp2", 16), ("tp4", 8), ("pp4", 8)])
def test_seconds_of_ranks_that_share_a_batch_count_it_once(
    tmp_path: Path, parallel: str, rate: float
):
    """Half a second for a batch of 4 a replica."""
    lines = [timed(i, seconds="0.5") for i in range(1, 21)]
    keys = {"layout": "1n4c", "parallel": parallel, "log_format": SECONDS}
    assert read(tmp_path, lines, **keys) == (pytest.approx(rate), "samples")


@pytest.mark.parametrize(
    ("parallel", "scope", "rate"),
    [
        ("ddp", "replica", 400), ("tp2", "replica", 200), ("tp2-pp2", "replica", 100),
        ("tp2", "device", 400), ("tp2", "global", 100),
    ],
)  # fmt: skip
def test_whose_work_a_printed_rate_counts(tmp_path: Path, parallel: str, scope: Any, rate: float):
    lines = [line(i, rate="100") for i in range(1, 21)]
    keys = {"layout": "1n4c", "parallel": parallel, "log_format": pattern(OWN, scope=scope)}
    assert read(tmp_path, lines, **keys) == (pytest.approx(rate), "samples")


def test_a_run_in_turns_by_time_counts_what_is_within_them(tmp_path: Path):
    log, turns = Program(iterations=400).log()
    run = write(tmp_path, [])
    Path(run.log).write_bytes(log)
    timed = tuple(
        TimedTurn(
            turn.number, {"output.log": turn.end}, turn.seconds, counts=6 <= turn.number <= 30
        )
        for turn in turns
    )
    program = replace(
        case("1n1c", command=["python", "x.py"], log_format=FROZEN),
        protocol=Protocol(iterations=390, warmup=50),
    )
    whole, _ = summarise_program(program, run)
    assert whole.turns == ()
    assert whole.throughput < 0.6 * 4 / Program.step_s
    summary, _ = summarise_program(program, replace(run, timed_turns=timed))
    # By turns, which a record is cut by at each end
    assert summary.throughput == pytest.approx(4 / Program.step_s, rel=1 / 250)
    assert summary.estimates["median_step"] == pytest.approx(4 / Program.step_s, rel=1e-5)
    assert summary.step_seconds == pytest.approx([Program.step_s] * len(summary.step_seconds))
    # Eleven or twelve iterations are printed in a turn, and two of them do not count
    lengths = [b - a for a, b in pairwise((*summary.turns, len(summary.step_seconds)))]
    assert set(lengths[1:-1]) <= {9, 10}
    assert summary.turns[0] == 0
    [note] = [p for p in summary.problems if p.code == "turns-by-time"]
    assert f"{340 - len(summary.step_seconds)} of 340 measured iterations do not" in note.message
    how = cut_log(program, replace(run, timed_turns=timed))
    assert how is not None
    assert [turn.iterations for turn in how.turns] == lengths


def test_the_log_of_a_rank_is_cut_by_its_own_sizes(tmp_path: Path):
    log, turns = Program(iterations=400).log()
    run = write(tmp_path, [])
    (tmp_path / "rank0.log").write_bytes(log)
    Path(run.log).write_bytes(b"no record\n")
    timed = tuple(
        TimedTurn(
            turn.number,
            {"output.log": 10, "rank0.log": turn.end},
            turn.seconds,
            counts=6 <= turn.number <= 30,
        )
        for turn in turns
    )
    program = replace(
        case("1n1c", command=["python", "x.py"], log_format=FROZEN),
        protocol=Protocol(iterations=390, warmup=50),
    )
    plan = replace(run.plan, rank_logs="rank*.log", workdir=str(tmp_path))
    summary, _ = summarise_program(program, replace(run, plan=plan, timed_turns=timed))
    assert summary.throughput == pytest.approx(4 / Program.step_s, rel=1 / 250)


def test_what_is_beyond_the_head_of_a_long_log_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    log, turns = Program(iterations=400).log()
    run = write(tmp_path, [])
    Path(run.log).write_bytes(log)
    monkeypatch.setattr(run_logs, "LOG_BYTES", 2 * turns[15].end)
    timed = tuple(TimedTurn(t.number, {"output.log": t.end}, t.seconds) for t in turns)
    program = replace(
        case("1n1c", command=["python", "x.py"], log_format=FROZEN),
        protocol=Protocol(iterations=390, warmup=50),
    )
    how = cut_log(program, replace(run, timed_turns=timed))
    assert how is not None
    assert how.turns[-1].number == 15


@pytest.mark.parametrize(("iterations", "expected"), [(9, False), (50, False), (60, True)])
def test_a_log_shows_that_the_warm_up_is_over(tmp_path: Path, iterations: int, expected: bool):
    run = write(tmp_path, [])
    program = replace(
        case("1n1c", command=["python", "x.py"], log_format=FROZEN),
        protocol=Protocol(iterations=390, warmup=50),
    )
    Path(run.log).write_bytes(Program(iterations=iterations).log()[0])
    assert is_warm(program, run.plan) is expected


def test_a_long_log_is_not_read_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    run = write(tmp_path, [])
    program = case("1n1c", command=["python", "x.py"], log_format=FROZEN)
    Path(run.log).write_bytes(b"configuration\n" * 10)
    assert not is_warm(program, run.plan)
    monkeypatch.setattr(user_program, "_LONG_BYTES", 100)
    assert is_warm(program, run.plan)
