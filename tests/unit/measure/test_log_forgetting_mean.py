"""llm.c's rate is a mean that forgets: the time of each step makes the rate of it."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest

from pytest_dlperf.measure.logs.extract import LogResult, extract_stream
from pytest_dlperf.measure.logs.parsed_log import ParseOptions

TOKENS = 524_288
KEEPS = 0.95


def log(step_s: Callable[[int], float], *, first: int = 0, count: int = 200) -> str:
    """Return what ``train_gpt2.cu`` prints; its mean begins with 0 at the first line."""
    lines, mean = [], 0.0
    for step in range(first, first + count):
        seconds = step_s(step)
        rate = shown = TOKENS / seconds
        if step > 0:
            mean = KEEPS * mean + (1 - KEEPS) * rate
            shown = mean / (1 - KEEPS**step)
        lines.append(
            f"step {step + 1:4d}/19560 | loss 5.1 (+1.23z)| norm 0.5 (-0.12z)| lr 6.00e-04 | "
            f"{seconds * 1000:.2f} ms | 48.2% bf16 MFU | {shown:.0f} tok/s\n"
        )
    return "".join(lines)


def read(text: str, **options: int) -> LogResult:
    return extract_stream(io.BytesIO(text.encode()), "train.log", ParseOptions(**options))


@pytest.mark.parametrize(
    "step_s",
    [
        lambda step: 0.5,
        lambda step: 0.5 if step < 100 else 1.0,
        lambda step: 1.0 if step < 100 else 0.5,
        lambda step: 4.5 if step % 20 == 0 else 0.5,
        lambda step: 0.5 + 0.003 * (step * 7 % 11),
    ],
    ids=["steady", "slower", "faster", "spikes", "varied"],
)
@pytest.mark.parametrize("first", [0, 4000], ids=["from its begin", "goes on"])
def test_the_rate_is_that_of_the_steps(step_s: Callable[[int], float], first: int):
    result = read(log(lambda step: step_s(step - first), first=first), skip=50)
    expected = 150 * TOKENS / sum(map(step_s, range(50, 200)))
    assert result.throughput == pytest.approx(expected, rel=1e-3)


def test_a_program_that_prints_the_rate_of_a_step_is_read_as_it_is():
    lines = [
        f"step {i + 1:4d}/150 | train loss 5.1 | norm 0.5 | lr 6.00e-04 | "
        f"({500 + i % 7:.2f} ms | {TOKENS / (0.5 + i % 7 / 1000):.0f} tok/s)\n"
        for i in range(150)
    ]
    expected = 100 * TOKENS / sum(0.5 + i % 7 / 1000 for i in range(50, 150))
    assert read("".join(lines), skip=50).throughput == pytest.approx(expected, rel=1e-3)


def test_a_mean_that_no_time_explains_is_no_rate():
    lines = [
        f"step {i + 1:4d}/150 | loss 5.1 | norm 0.5 | lr 6.00e-04 | {500 + i * 37 % 400:.2f} ms | "
        f"48.2% bf16 MFU | {1e6 + i * 7919 % 300_000:.0f} tok/s\n"
        for i in range(150)
    ]
    result = read("".join(lines), skip=50)
    assert result.throughput is None
    assert result.problems
