"""Cases behind a prefix, where only the target has a framework; the prefix is a fake container."""

from __future__ import annotations

import json

import pytest

from tests.helpers.fake_suite import FAKES, TESTS, Suite
from tests.plugin.test_watched_gpus import on_a_gpu

ONE, TWO = "net-torch-fp32-bs4-1n1c", "net-torch-fp32-bs4-1n2c"


@pytest.fixture
def boxed(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Suite:
    """A suite on a machine without a framework."""
    monkeypatch.setenv("PATH", str(FAKES), prepend=":")
    monkeypatch.setenv("DLPERF_RUNTIME_DIR", str(pytester.path / "runtime"))
    made = Suite(pytester, monkeypatch)
    made.write(TESTS)
    return made


def launches(suite: Suite) -> list[dict[str, object]]:
    lines = (suite.path / "box.log").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("extra", [(), pytest.param(("-n2",), marks=pytest.mark.nightly)])
def test_a_session_probes_once_and_runs_in_the_container(boxed: Suite, extra: tuple[str, ...]):
    result, outcomes = boxed.outcomes(
        "--dlperf-prefix=box --log={rootdir}/box.log 'my image'", "--dlperf-runs=1", *extra
    )
    assert result.ret == 0, result.stdout.str()
    assert {o["judgement"]["verdict"] for o in outcomes.values()} == {"no-baseline"}
    started = [launch["module"] for launch in launches(boxed)]
    assert sorted(started) == ["pytest_dlperf.worker.probe", *["torch.distributed.run"] * 2]
    assert started[0] == "pytest_dlperf.worker.probe"
    env = launches(boxed)[-1]["env"]
    assert isinstance(env, dict)
    assert set(env) == {
        "PATH", "DLPERF_RUN", "OMP_NUM_THREADS", "PYTHONPATH", "PYTHONUNBUFFERED",
        "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "GLOO_SOCKET_IFNAME", "PET_STANDALONE",
    }  # fmt: skip
    package = env["PYTHONPATH"].split(":")[0]
    assert package.startswith(f"{boxed.path}/.dlperf/")
    software = outcomes[TWO]["environment"]["software"]
    assert software["prefix"] == "box --log={rootdir}/box.log 'my image'"
    assert (software["image"], software["os of the ranks"]) == ("my image", "Boxed 1.0")
    assert (software["torch"], software["cuda"], software["nccl"]) == ("9.9", "12.1", "2.19.3")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "verdict", "message"),
    [
        ("--broken", "error", "exit code 1, and no answer"),
        ("--python=3.8.10", "error", "Python 3.8.10 behind the prefix"),
        ("--empty", "not-run", "torch is not installed behind the prefix"),
        ("--torch=1.13.1", "not-run", "torch 1.13.1 behind the prefix"),
    ],
)
def test_a_target_that_cannot_be_used(boxed: Suite, flags: str, verdict: str, message: str):
    result, outcomes = boxed.outcomes(
        f"--dlperf-prefix=box --log={{rootdir}}/box.log {flags} image"
    )
    assert result.ret == 1
    assert {o["judgement"]["verdict"] for o in outcomes.values()} == {verdict}
    assert message in outcomes[ONE]["judgement"]["reason"]
    if flags == "--broken":
        assert "welcome to image" in outcomes[ONE]["judgement"]["reason"]
        assert "no such image" in outcomes[ONE]["judgement"]["reason"]
    assert len(launches(boxed)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("extra", [(), pytest.param(("-n2",), marks=pytest.mark.nightly)])
@pytest.mark.parametrize(("seen", "verdict"), [(0, "error"), (1, "no-baseline")])
def test_gpus_are_those_that_the_target_sees(
    boxed: Suite, extra: tuple[str, ...], seen: int, verdict: str
):
    on_a_gpu(boxed)
    result, outcomes = boxed.outcomes(
        f"--dlperf-prefix=box --gpus={seen} image", "--dlperf-runs=1", *extra
    )
    judgement = outcomes["net-torch-fp32-bs4-1n1g"]["judgement"]
    assert judgement["verdict"] == verdict, result.stdout.str()
    if not seen:
        assert "sees 0 GPUs, 1n1g needs 1" in judgement["reason"]


def test_a_prefix_that_is_no_program(boxed: Suite):
    _, outcomes = boxed.outcomes("--dlperf-prefix=no-such-box run")
    reason = outcomes[ONE]["judgement"]["reason"]
    assert "it could not be started (no-such-box: No such file or directory)" in reason


def test_a_dry_run_shows_the_whole_command_and_starts_nothing(boxed: Suite):
    result = boxed.run("--dlperf-dry-run", "--dlperf-prefix=box -v {rootdir}:{rootdir} image")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            TWO,
            f"  box -v {boxed.path}:{boxed.path} image env DLPERF_RUN=* OMP_NUM_THREADS=* "
            "PYTHONPATH=*.dlperf/* PYTHONUNBUFFERED=1 * python3 -m torch.distributed.run *",
        ]
    )
    assert not (boxed.path / ".dlperf").exists()
