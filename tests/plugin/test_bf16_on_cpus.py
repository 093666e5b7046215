"""bf16 on a CPU without instructions for it: left out with its reason, unless it is wanted."""

from __future__ import annotations

import pytest

# Kept for all sessions in this process: NumPy cannot be loaded twice.
import pytest_dlperf.session.measurer  # noqa: F401
from pytest_dlperf.measure import devices
from pytest_dlperf.session.pytest_private import is_matched
from tests.helpers.fake_suite import Suite

pytestmark = pytest.mark.slow  # many sessions; .ci/run has them


FP32, BF16 = "net-torch-fp32-bs4-1n1c", "net-torch-bf16-bs4-1n1c"
WHY = "bf16 on a CPU without bf16 instructions; -k bf16 or --dlperf-precision=bf16 runs it"
LEFT_OUT = f"dlperf: 1 case left out: {WHY}"
TESTS = """
import pytest

@pytest.mark.dlperf("w:build", launcher="torchrun", precision={precisions}, layout="1n1c",
                    batch_size_per_device=4)
def test_net(dlperf):
    dlperf.run()
"""


@pytest.fixture
def old_cpu(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> Suite:
    """A suite in fp32 and bf16 on a machine whose CPU has no instructions for bfloat16."""
    monkeypatch.setattr(devices, "_CPU_INFO", suite.path / "cpuinfo")
    (suite.path / "cpuinfo").write_text("model name : Old\nflags : fpu avx2 avx512f\n")
    suite.pytester.makeconftest(
        "from pathlib import Path\n"
        "from pytest_dlperf.measure import devices\n"
        "devices._CPU_INFO = Path(__file__).with_name('cpuinfo')\n"
    )
    suite.write(TESTS.format(precisions=["fp32", "bf16"]))
    return suite


def collected(suite: Suite, *arguments: str) -> list[str]:
    """Return the ids of the cases that a session would run."""
    result = suite.pytester.runpytest_inprocess("--collect-only", "-q", *arguments)
    return [line.partition("[")[2][:-1] for line in result.outlines if "::" in line]


@pytest.mark.parametrize(
    ("arguments", "ids"),
    [
        ((), [FP32]),
        pytest.param(("-k", "net"), [FP32], marks=pytest.mark.nightly),
        (("-k", "not bf16"), [FP32]),
        pytest.param(("-k", "net and not (net and bf16)"), [FP32], marks=pytest.mark.nightly),
        (("-k", "fp32 or bf16"), [FP32, BF16]),
        pytest.param(("-k", "net and BF16"), [BF16], marks=pytest.mark.nightly),
        (("-k", BF16), [BF16]),
        (("--dlperf-precision=fp32,bf16",), [FP32, BF16]),
        pytest.param(("--dlperf-precision=bf16",), [BF16], marks=pytest.mark.nightly),
        pytest.param(("--dlperf-precision=fp32",), [FP32], marks=pytest.mark.nightly),
        (("--dlperf-precision=tf32",), []),
        (("--cpus=1",), [FP32]),
        (("test_net.py::test_net",), [FP32]),
        ((f"test_net.py::test_net[{BF16}]",), [BF16]),
        ((f"./test_net.py::test_net[{BF16}]", f"test_net.py::test_net[{FP32}]"), [BF16, FP32]),
    ],
)
def test_it_runs_where_it_was_asked_for_by_name(
    old_cpu: Suite, arguments: tuple[str, ...], ids: list[str]
):
    assert collected(old_cpu, *arguments) == ids


def test_the_rest_is_measured_and_the_session_says_what_was_left_out(old_cpu: Suite):
    result, outcomes = old_cpu.outcomes("--dlperf-runs=1")
    assert list(outcomes) == [FP32]
    result.stdout.fnmatch_lines([LEFT_OUT])
    result.assert_outcomes(deselected=1)


def test_a_session_of_nothing_else_does_not_end_well(old_cpu: Suite):
    old_cpu.write(TESTS.format(precisions=["bf16"]))
    result = old_cpu.pytester.runpytest_inprocess()
    result.stdout.fnmatch_lines([LEFT_OUT])
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_a_stored_baseline_shows_that_it_is_gated(old_cpu: Suite):
    # In xdist's workers too
    old_cpu.run("--dlperf-runs=1", "--update-baselines", "-k", "fp32 or bf16", "-n2")
    assert set(old_cpu.baselines()) == {FP32, BF16}
    assert collected(old_cpu) == [FP32, BF16]
    [file] = old_cpu.path.glob(f"baselines/*/*/{BF16}.json")
    file.write_text("broken")
    assert collected(old_cpu) == [FP32, BF16]


def test_the_list_says_why(old_cpu: Suite):
    listed = old_cpu.run("--dlperf-list")
    listed.stdout.fnmatch_lines([f"{FP32} *yes", f"{BF16} *{WHY}"])
    asked = old_cpu.run("--dlperf-list", "-k", "bf16")
    asked.stdout.fnmatch_lines([f"{BF16} *yes"])


@pytest.mark.parametrize("flags", ["avx2 avx512_bf16", "fpu amx_bf16", ""])
def test_a_cpu_that_has_them_or_is_not_known_runs_it(old_cpu: Suite, flags: str):
    text = f"model name : New\nflags : {flags}\n" if flags else "model name : Odd\n"
    (old_cpu.path / "cpuinfo").write_text(text)
    assert collected(old_cpu) == [FP32, BF16]


@pytest.mark.parametrize(
    ("expression", "as_it_is", "without"),
    [
        ("tsm", True, True),
        ("bf16", True, False),
        ("torch and not (tsm and bf16)", False, True),
        ("tsm or bf16", True, True),
        ("tsm.tiny-torch-bf16-bs2", True, False),
        ("training_bf16", True, False),  # of the function's own name
        ("fp32", False, False),
        ("tsm and", False, False),
    ],
)
def test_an_expression_is_read_with_and_without_the_word(
    pytester: pytest.Pytester, expression: str, as_it_is: bool, without: bool
):
    item = pytester.getitem(
        "import pytest\n"
        "@pytest.mark.parametrize('case', [0], ids=['tsm.tiny-torch-bf16-bs2-1n2c'])\n"
        "def test_training_bf16(case): pass\n",
        "test_training_bf16[tsm.tiny-torch-bf16-bs2-1n2c]",
    )
    assert is_matched(item, expression) is as_it_is
    assert is_matched(item, expression, without="bf16") is without
