"""What the command line and the ini file may say, and what not."""

from __future__ import annotations

import pytest

from tests.helpers.fake_suite import Suite

ONE, TWO = "net-torch-fp32-bs4-1n1c", "net-torch-fp32-bs4-1n2c"


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--gpus=0", "--gpus=0: give a whole number, 1 or more"),
        ("--gpus=eight", "--gpus=eight"),
        ("--gpus=1,,2", "--gpus="),
        ("--cpus=-1", "--cpus=-1"),
        ("--dlperf-size=huge", "known are full, tiny"),
        ("--dlperf-framework=jax", "known are torch, paddle, tensorflow"),
        ("--dlperf-precision=fp16", "known are fp32, tf32, amp, bf16, pure_fp16"),
        ("--dlperf-tolerance=x", "--dlperf-tolerance: 'x' is not a number"),
        ("--dlperf-tolerance=5", "write 5% instead"),
        ("--dlperf-inject=abc", "--dlperf-inject"),
        ("--dlperf-mode=maybe", "known are gate, observe"),
        ("--dlperf-runs=0", "--dlperf-runs=0"),
        ("--dlperf-timeout=0", "seconds above 0"),
        ("--dlperf-warmup=150", "not below the 150 iterations"),
        ("--dlperf-warmup=1", "2 or more"),
        ("--dlperf-alpha=0", "alpha 0"),
        ("--dlperf-alpha=500%", "must be below 100 %"),
        ("--dlperf-tolerance=200%", "must be below 100 %"),
        ("--dlperf-min-effect=100%", "must be below 100 %"),
        ("--dlperf-baselines=test_net.py", "is no folder"),
        ("--dlperf-json=test_net.py/r.json", "cannot be written"),
        ("--dlperf-hosts=n1:8,n1:8", "n1 stands twice"),
        ("--dlperf-hosts=n1", "is no host with its devices"),
        ("--dlperf-hosts=n1:8;reboot", "is no host with its devices"),
        ("--dlperf-rendezvous=etcd", "known are static, c10d"),
        ("--dlperf-env=A=b", "give names alone"),
        ("--dlperf-launcher=ssh", "known are horovodrun"),
    ],
)
def test_options_that_cannot_be_meant(suite: Suite, option: str, message: str):
    result = suite.run(option)
    assert result.ret not in {0, 1}
    result.stdout.no_fnmatch_line("*Traceback*")
    assert message in result.stdout.str() + result.stderr.str()


def test_two_reports_in_one_file_cannot_be_meant(suite: Suite):
    result = suite.run("--dlperf-html=r", "--dlperf-md=./r")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "--dlperf-html and --dlperf-md name one file" in result.stderr.str()


@pytest.mark.parametrize("ini", ["dlperf_fail_on = garbage", "dlperf_machine_class = A b/c"])
def test_an_ini_file_that_cannot_be_meant(suite: Suite, ini: str):
    suite.pytester.makeini(f"[pytest]\n{ini}")
    result = suite.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    [line] = [line for line in result.stderr.lines if line]
    assert ini.split(" ")[0] in line


def test_more_devices_than_there_are_is_an_error_for_each_case(suite: Suite):
    result, outcomes = suite.outcomes("--cpus=4096", "--dlperf-runs=1")
    assert result.ret == 1
    (outcome,) = outcomes.values()
    assert outcome["judgement"]["verdict"] == "error"
    assert "4096 cores" in outcome["judgement"]["reason"]


def test_gpus_that_are_not_there(suite: Suite):
    result, outcomes = suite.outcomes("--gpus=1")
    assert result.ret == 1
    assert {o["judgement"]["verdict"] for o in outcomes.values()} == {"error"}
    result.stdout.fnmatch_lines(["*needs 1 GPUs, this machine has 0*"])


@pytest.mark.parametrize("extra", [(), ("-n1",)])
@pytest.mark.parametrize("where", [".", "sub"])
def test_a_conftest_with_its_own_gpus(suite: Suite, extra: tuple[str, ...], where: str):
    folder = suite.path / where
    folder.mkdir(exist_ok=True)
    (folder / "conftest.py").write_text(
        "def pytest_addoption(parser):\n    parser.addoption('--gpus', default='mine')\n"
        "def pytest_report_header(config):\n    return f'theirs: {config.option.gpus}'\n",
        encoding="utf-8",
    )
    (folder / "test_own.py").write_text("def test_own(): pass\n", encoding="utf-8")
    files = ("test_net.py", f"{where}/test_own.py")
    result = suite.run("--gpus=7", "--cpus=1", "--dlperf-runs=1", *files, *extra)
    assert result.ret == 0
    for line in ("theirs: 7", "*--gpus belongs to another plugin or conftest*", f"{ONE} *"):
        result.stdout.fnmatch_lines([line])


def test_short_options_take_their_value_either_way(suite: Suite):
    result = suite.run("--cpus", "1", "--dlperf-runs=1")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*1 case: 1 no-baseline*"])


def test_pytest_still_keeps_its_options_where_we_look_for_them():
    """Fails when pytest moves the private names that ``pytest_private`` leans on."""
    from _pytest.config import get_config

    parser = get_config()._parser
    parser.addoption("--theirs")
    parser.getgroup("some").addoption("--grouped")
    names = {
        name
        for group in [parser._anonymous, *parser._groups]
        for option in group.options
        for name in option.names()
    }
    assert {"--theirs", "--grouped"} <= names


def test_a_window_that_does_not_fit_one_case_stops_no_other(suite: Suite):
    suite.write(
        """
        import pytest
        from pytest_dlperf import expand
        CASES = [
            *expand(suite="net", framework="torch", workload="w:build", layout="1n1c",
                    launcher="torchrun", batch_size_per_device=4),
            *expand(suite="long", framework="torch", workload="w:build", layout="1n1c",
                    launcher="torchrun", batch_size_per_device=4, iterations=300, warmup=200),
        ]
        @pytest.mark.dlperf(cases=CASES)
        def test_net(dlperf):
            dlperf.run()
        """
    )
    result, outcomes = suite.outcomes("--dlperf-iterations=100", "--dlperf-runs=1")
    assert result.ret == 1
    verdicts = {case_id: o["judgement"]["verdict"] for case_id, o in outcomes.items()}
    assert verdicts == {
        "net-torch-fp32-bs4-1n1c": "no-baseline",
        "long-torch-fp32-bs4-1n1c": "error",
    }
    reason = outcomes["long-torch-fp32-bs4-1n1c"]["judgement"]["reason"]
    assert "warm-up 200 is not below the 100 iterations" in reason
    assert suite.run("--dlperf-iterations=100", "--dlperf-list").ret == 0
