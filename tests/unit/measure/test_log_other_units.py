"""Lines of a log whose speed is in another unit than a pattern reads: said, never left out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_dlperf.measure.logs.extract import LogResult
from tests.helpers.extracted import extracted
from tests.helpers.judged_logs import judged
from tests.unit.measure.test_log_scale import codes, message

STEP = r"step (?P<step>\d+)"
#: Gets the seconds of an iteration; returns them as a program prints them.
Speed = Callable[[float], str]


def by_pattern(path: Path, text: str, *options: str) -> LogResult:
    path.write_text(text, encoding="utf-8")
    return extracted(path, *options)


def lines(speed: Speed, times: list[float], form: str = "step {i} loss 2.{mark} {speed}\n") -> str:
    return "".join(
        form.format(i=i, mark=i % 7, speed=speed(each_s), percent=i // 20)
        for i, each_s in enumerate(times, 1)
    )


def iterations(each_s: float) -> str:
    return f"{1 / each_s:.2f}it/s" if each_s < 1 else f"{each_s:.2f}s/it"


def samples(each_s: float) -> str:
    rate = 1000 / each_s
    return f"{rate:.1f} samples/s" if rate < 1000 else f"{rate / 1000:.3f} Ksamples/s"


def named_samples(each_s: float) -> str:
    rate = 1000 / each_s
    return f"samples/s: {rate:.1f}" if rate < 1000 else f"Ksamples/s: {rate / 1000:.3f}"


def milliseconds(each_s: float) -> str:
    return f"took {each_s * 1000:.1f} ms" if each_s < 1 else f"took {each_s:.3f} s"


def short(each_s: float) -> str:
    rate = 1000 / each_s
    return f"speed={rate:.1f}" if rate < 1000 else f"speed={rate / 1000:.3f}k"


#: A speed whose unit changes, and patterns that read the one or the other.
CHANGING: list[tuple[Speed, str, tuple[str, ...]]] = [
    (iterations, r" (?P<rate>[\d.]+)it/s", ("--unit=iterations",)),
    (iterations, r".* (?P<rate>[\d.]+)", ("--unit=iterations",)),
    (iterations, r".* (?P<seconds>[\d.]+)s/it", ("--unit=iterations",)),
    (iterations, r" loss \S+ (?P<rate>\S+?)it/s", ("--unit=iterations",)),
    (samples, r".* (?P<rate>[\d.]+) samples", ()),
    (samples, r".* (?P<rate>[\d.]+)", ()),
    (samples, r".* (?P<rate>[\d.]+) Ksamples", ()),
    (named_samples, r".* samples/s: (?P<rate>[\d.]+)", ()),
    (named_samples, r".*samples/s: (?P<rate>[\d.]+)", ()),
    (milliseconds, r".* took (?P<milliseconds>[\d.]+) ms", ("--unit=iterations",)),
    (milliseconds, r".* took (?P<seconds>[\d.]+) s", ("--unit=iterations",)),
    (milliseconds, r".* took (?P<seconds>[\d.]+)", ("--unit=iterations",)),
    (short, r".* speed=(?P<rate>[\d.]+)", ()),
]
WAYS = {
    "later": [0.9] * 300 + [3.0] * 300,
    "earlier": [3.0] * 300 + [0.9] * 300,
    "for a while": [0.9] * 200 + [3.0] * 100 + [0.9] * 200,
    "now and then": [3.0 if i % 7 == 0 else 0.9 for i in range(500)],
}


@pytest.mark.parametrize("times", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize(("speed", "regex", "options"), CHANGING)
def test_a_unit_that_changes_gives_no_number(
    tmp_path: Path, speed: Speed, regex: str, options: tuple[str, ...], times: list[float]
) -> None:
    regex = STEP + (regex if regex.startswith((".*", " loss")) else " loss .*?" + regex)

    result = by_pattern(
        tmp_path / "train.log", lines(speed, times), f"--pattern={regex}", *options
    )

    assert result.throughput is None
    assert codes(result) & {"prints-unread", "insufficient-data"}


def test_the_line_that_is_not_read_is_shown_with_the_cause(tmp_path: Path) -> None:
    regex = STEP + r".* (?P<rate>[\d.]+)it/s"

    result = by_pattern(
        tmp_path / "train.log", lines(iterations, WAYS["later"]), f"--pattern={regex}",
        "--unit=iterations",
    )  # fmt: skip

    said = message(result, "prints-unread")
    assert "3.00s/it" in said
    assert "it is a time, and no rate" in said
    assert "(?P<seconds>" in said


@pytest.mark.parametrize("times", WAYS.values(), ids=WAYS)
def test_a_pattern_with_both_units_reads_all(tmp_path: Path, times: list[float]) -> None:
    regex = STEP + r".* (?:(?P<rate>[\d.]+)it/s|(?P<seconds>[\d.]+)s/it)"

    result = by_pattern(
        tmp_path / "train.log", lines(iterations, times), f"--pattern={regex}",
        "--unit=iterations",
    )  # fmt: skip

    assert result.throughput == pytest.approx(len(times[50:]) / sum(times[50:]), rel=0.02)
    assert "prints-unread" not in codes(result)


def test_a_change_within_the_warm_up_is_not_said(tmp_path: Path) -> None:
    text = lines(iterations, [9.0] * 3 + [1.5] * 20 + [0.5] * 300)

    for regex in (r".* (?P<rate>[\d.]+)it/s", r".* (?P<rate>[\d.]+)"):
        result = by_pattern(
            tmp_path / "train.log", text, f"--pattern={STEP}{regex}", "--unit=iterations"
        )
        assert result.throughput == pytest.approx(2)
        assert not codes(result)


def test_a_few_prints_in_another_unit_are_said_and_not_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    times = [3.0 if i in {200, 300} else 0.5 for i in range(400)]
    options = (f"--pattern={STEP}.* (?P<rate>[\\d.]+)it/s", "--unit=iterations")
    path = tmp_path / "train.log"

    result = by_pattern(path, lines(iterations, times), *options)

    assert result.throughput == pytest.approx(2)
    assert "prints-unread" in codes(result)
    other = tmp_path / "other.log"
    other.write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    _, values = judged(capsys, path, other, *options)
    assert values["verdict"] == "unsteady"


@pytest.mark.parametrize(
    "form",
    [
        "step {i}: {speed}\nstep {i}: 9.1 samples/s\n",
        "step {i}: 9.1 samples/s\nstep {i}: {speed}\n",
        "step {i}: 9.1 samples/s\nstep {i}: 3.5 Ktok/s\nstep {i}: 0.9 s/it\n",
    ],
)
def test_units_that_a_program_prints_for_each_step_are_no_change(
    tmp_path: Path, form: str
) -> None:
    regex = STEP + r": (?P<rate>[\d.]+) samples/s"

    result = by_pattern(
        tmp_path / "train.log", lines(iterations, WAYS["later"], form), f"--pattern={regex}"
    )

    assert result.throughput == pytest.approx(9.1)
    assert "prints-unread" not in codes(result)


@pytest.mark.parametrize(
    "form",
    [
        "step {i}\n  speed {speed}\n",
        "step {i} lr 0.1\nloss 2.{mark}\n  speed {speed} other\n",
    ],
)
@pytest.mark.parametrize("unit", ["", "it/s"])
@pytest.mark.parametrize("way", ["later", "for a while"])
def test_a_unit_that_changes_on_a_line_of_its_own_gives_no_number(
    tmp_path: Path, form: str, way: str, unit: str
) -> None:
    result = by_pattern(
        tmp_path / "train.log", lines(iterations, WAYS[way], form),
        rf"--pattern={STEP}", rf"--pattern=speed (?P<rate>[\d.]+){unit}", "--unit=iterations",
    )  # fmt: skip

    assert result.throughput is None


def test_two_units_on_lines_of_their_own_are_no_change(tmp_path: Path) -> None:
    form = "step {i}\n  speed 9.1 samples/s\n  speed {speed}\n"

    result = by_pattern(
        tmp_path / "train.log", lines(iterations, WAYS["later"], form),
        rf"--pattern={STEP}", r"--pattern=speed (?P<rate>[\d.]+) samples/s",
    )  # fmt: skip

    assert result.throughput == pytest.approx(9.1)
    assert "prints-unread" not in codes(result)


BAR = "Tuning: {percent:3d}%|##  | {i}/2000 [01:40<0:10, {speed}, avr_loss=0.1]\n"


def test_states_of_a_bar_in_another_unit_are_seen(tmp_path: Path) -> None:
    regex = r"\| (?P<step>\d+)/\d+ \[.*?, (?P<rate>[\d.]+)it/s"

    result = by_pattern(
        tmp_path / "train.log", lines(iterations, WAYS["later"], BAR), f"--pattern={regex}",
        "--unit=iterations",
    )  # fmt: skip

    assert result.throughput is None
    assert "prints-unread" in codes(result)


@pytest.mark.parametrize(
    ("speed", "unit", "counted"),
    [
        ("64.5 tok/s", "samples", "tokens"),
        ("64.5 tok/s", None, "tokens"),
        ("64.5 tokens/s/GPU", "images", "tokens"),
        ("64.5 tokens per second", "sequences", "tokens"),
        ("tokens_per_sec: 64.5", "samples", "tokens"),
        ("tokens/s [global]: 64.5", "samples", "tokens"),
        ("throughput (tokens/s): 64.5", "samples", "tokens"),
        ("train_tokens_per_second=64.5", "samples", "tokens"),
        ("tokens/gpu/s 64.5", "samples", "tokens"),
        ("wps: 64.5", "samples", "tokens"),
        ("tps: 64.5", "clips", "tokens"),
        ("64.5 samples/s", "tokens", "samples"),
        ("64.5 img/sec", "tokens", "samples"),
        ("images/sec: 64.5", "words", "samples"),
        ("64.5 samples/s", "iterations", "samples"),
        ("64.5 steps/s", "samples", "iterations"),
        ("steps_per_second: 64.5", "tokens", "iterations"),
        ("64.5 iter/s", None, "iterations"),
        ("batches/sec: 64.5", "images", "iterations"),
    ],
)
def test_a_rate_of_one_unit_is_never_called_another(
    tmp_path: Path, speed: str, unit: str | None, counted: str
) -> None:
    regex = STEP + r" \| .*?(?P<rate>64[\d.]+)"
    options = [f"--pattern={regex}", "--world_size=1"]
    text = lines(lambda _: speed, [1.0] * 100, "step {i} | {speed} | loss 2.{mark}\n")
    said_unit = () if unit is None else (f"--unit={unit}",)

    result = by_pattern(tmp_path / "train.log", text, *options, *said_unit)

    assert result.throughput is None
    assert f"it counts {counted}" in message(result, "insufficient-data")
    right = by_pattern(tmp_path / "train.log", text, *options, f"--unit={counted}")
    assert (right.throughput, right.unit) == (pytest.approx(64.5), counted)


@pytest.mark.parametrize(
    ("speed", "unit"),
    [
        ("64.5 images/s", "samples"),
        ("64.5 samples/s", "clips"),
        ("64.5 img/s", "pictures"),
        ("64.5 it/s", "samples"),
        ("64.5 frames/s", "frames"),
        ("64.5 words/s", "tokens"),
        ("64.5 tok/s", "words"),
        ("wps 64.5", "words"),
        ("64.5 | tokens 5 | 3 tok/s", "samples"),
        ("64.5 batch/s", "iterations"),
        ("tokens=4096 samples/s: 64.5", "samples"),
    ],
)
def test_other_words_for_what_is_counted_are_the_same(
    tmp_path: Path, speed: str, unit: str
) -> None:
    text = lines(lambda _: speed, [1.0] * 100, "step {i} | {speed} | loss 2.{mark}\n")

    result = by_pattern(
        tmp_path / "train.log", text, rf"--pattern={STEP} \| .*?(?P<rate>64[\d.]+)",
        f"--unit={unit}",
    )  # fmt: skip

    assert (result.throughput, result.unit) == (pytest.approx(64.5), unit)


#: Lines, the one among them that has another unit, and the pattern.
ALONE = (
    ("step {i} 64.0 samples/s", "step {i} 65536.0 tok/s", r"step (?P<step>\d+) (?P<rate>\S+) sam"),
    (
        "step {i} time_s=0.50",
        "step {i} time_ms=500.0",
        r"step (?P<step>\d+) time_s=(?P<seconds>\S+)",
    ),
    ("{i} 2.1 64.0 samples/s", "{i} 2.1 65536.0 tok/s", r"^(?P<step>\d+) 2.1 (?P<rate>\S+) sam"),
    ("64.0 samples/s at {i}", "65536.0 tok/s at {i}", r"(?P<rate>\S+) samples/s at (?P<step>\d+)"),
    (
        "step {i} took 0.50 s",
        "step {i} took 500.0 ms",
        r"step (?P<step>\d+) took (?P<seconds>\S+) s",
    ),
)


@pytest.mark.parametrize(("line", "other", "regex"), ALONE)
@pytest.mark.parametrize("at", [60, 198, 199])
def test_one_print_alone_in_another_unit_is_said(
    tmp_path: Path, line: str, other: str, regex: str, at: int
) -> None:
    path = tmp_path / "train.log"
    lines = [(other if i == at else line).format(i=i) for i in range(200)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    unit = () if "rate" in regex else ("--unit=iterations",)

    result = extracted(path, f"--pattern={regex}", *unit)

    assert "of the iterations that were measured are not read" in message(result, "prints-unread")
    assert result.throughput == pytest.approx(64 if "rate" in regex else 2)


@pytest.mark.parametrize(
    "other", ["1" * 8000, "1:" * 4000, "1-" * 4000, "1::" * 2000, "1 " * 4000]
)
def test_digits_without_end_take_no_power_of_their_count(tmp_path: Path, other: str) -> None:
    form = "{i} 2025-03-04 1.5 2.5 3.5 4.5 x 64.0 samples/s\n"
    text = "".join(form.format(i=i) for i in range(200)) + other

    result = by_pattern(
        tmp_path / "train.log", text, r"--pattern=^(?P<step>\d+) .* (?P<rate>\S+) sa"
    )

    assert result.throughput == 64
