"""verl and ms-swift: what is in the time of a step, and since when a mean runs."""

from __future__ import annotations

import io

import pytest

from pytest_dlperf.measure.logs.extract import LogResult, extract_stream
from pytest_dlperf.measure.logs.parsed_log import ParseOptions

STEP_S, TOKENS = 40.0, 1_000_000


def read(text: str, **options: int) -> LogResult:
    return extract_stream(
        io.BytesIO(text.encode()), "train.log", ParseOptions(**{"skip": 0, **options})
    )


def verl(step: int, beside: dict[str, float], *, keys: str = "") -> str:
    seconds = STEP_S + sum(beside.values())
    timings = "".join(f"timing_s/{name}:{value:.3f} - " for name, value in beside.items())
    return (
        f"(TaskRunner pid=1234) step:{step} - {keys.format(step=step)}actor/grad_norm:0.412 - "
        f"{timings}timing_s/gen:20.000 - timing_s/step:{seconds:.3f} - "
        f"perf/time_per_step:{seconds:.3f} - perf/throughput:{TOKENS / 8 / seconds:.3f}\n"
    )


@pytest.mark.parametrize("keys", ["", "training/global_step:{step} - training/epoch:0 - "])
def test_validation_and_checkpoint_are_not_of_a_step_of_verl(keys: str):
    beside = {10: {"testing": 200.0}, 0: {"save_checkpoint": 60.0, "testing": 200.0}}
    lines = [verl(step, beside.get(step % 20, {}), keys=keys) for step in range(1, 151)]
    result = read("".join(lines), world_size=8)
    assert result.format == "verl"
    assert result.iterations == 150
    assert result.throughput == pytest.approx(TOKENS / STEP_S, rel=1e-4)


def swift(step: int, elapsed_s: float, steps: int) -> str:
    minutes, seconds = divmod(int(elapsed_s), 60)
    return (
        f"{{'loss': 1.7, 'grad_norm': 1.5, 'learning_rate': 2e-05, 'epoch': 2.05, "
        f"'train_speed(s/it)': {elapsed_s / steps:.6f}, "
        f"'global_step/max_steps': '{step}/2400', 'elapsed_time': '{minutes}m {seconds}s'}}\n"
    )


@pytest.mark.parametrize("start", [0, 200, 1000])
@pytest.mark.parametrize("is_of_run", [True, False], ids=["of this run", "of all steps"])
@pytest.mark.parametrize("begin_s", [0, 60])
def test_a_run_of_swift_that_goes_on(start: int, is_of_run: bool, begin_s: int):
    lines = []
    for step in range(start + 5, start + 405, 5):
        elapsed_s = begin_s + 4.0 * (step - start)
        lines.append(swift(step, elapsed_s, step - start if is_of_run else step))
    result = read("".join(lines), skip=50, world_size=8, batch_size_per_device=8)
    assert result.throughput == pytest.approx(64 / 4.0, rel=1e-3)
