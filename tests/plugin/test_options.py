"""What the command line and the ini file may say, and what not."""

from __future__ import annotations

import pytest

from tests.helpers.fake_suite import Suite

pytestmark = pytest.mark.pytest8

ONE, TWO = "net-torch-fp32-bs4-1n1c", "net-torch-fp32-bs4-1n2c"


@pytest.mark.parametrize("extra", [(), ("-n1",)])
@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--gpus=eight", "--gpus=eight: give a whole number, 1 or more"),
        ("--dlperf-json=test_net.py/r.json", "cannot be written"),
        ("--dlperf-against=", "--dlperf-against: it is empty"),
    ],
)
def test_an_option_that_cannot_be_meant_is_one_line(
    suite: Suite, option: str, message: str, extra: tuple[str, ...]
):
    result = suite.run(option, *extra)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    [line] = [line for line in result.stderr.lines if line]
    assert line.startswith("ERROR: pytest-dlperf: ")
    assert message in line
    assert result.stdout.str() == ""


@pytest.mark.parametrize("extra", [(), ("-n1",)])
def test_what_no_case_can_have_is_an_error_of_the_collection(suite: Suite, extra: tuple[str, ...]):
    result = suite.run("--dlperf-warmup=150", *extra)
    # pytest-xdist calls an error of the collection a failed test
    codes = pytest.ExitCode
    assert result.ret == (codes.TESTS_FAILED if extra else codes.INTERRUPTED)
    result.stdout.no_fnmatch_line("*Traceback*")
    assert "not below the 150 iterations" in result.stdout.str() + result.stderr.str()


def test_an_ini_file_that_cannot_be_meant(suite: Suite):
    suite.pytester.makeini("[pytest]\ndlperf_fail_on = garbage")
    result = suite.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    [line] = [line for line in result.stderr.lines if line]
    assert "dlperf_fail_on" in line


def test_more_devices_than_there_are_is_an_error_for_each_case(suite: Suite):
    result, outcomes = suite.outcomes("--cpus=4096", "--gpus=1", "--dlperf-runs=1")
    assert result.ret == 1
    assert {o["judgement"]["verdict"] for o in outcomes.values()} == {"error"}
    assert set(outcomes) == {ONE.replace("1n1c", "1n4096c"), ONE.replace("1n1c", "1n1g")}
    result.stdout.fnmatch_lines(["*needs 1 GPUs, this machine has 0*"])
    assert "4096 cores" in outcomes[ONE.replace("1n1c", "1n4096c")]["judgement"]["reason"]


@pytest.mark.parametrize("extra", [(), ("-n1",)])
@pytest.mark.parametrize("where", [".", "sub"])
@pytest.mark.nightly  # the gate has its main way
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


def test_a_run_that_names_no_option_has_their_defaults(suite: Suite):
    suite.write(
        """
        def test_them(pytestconfig):
            assert pytestconfig.getoption("dlperf_size") is None
            assert pytestconfig.getoption("--dlperf-size") is None
            assert pytestconfig.getoption("--dlperf-mode") == "gate"
            assert pytestconfig.option.dlperf_inject == []
            assert pytestconfig.option.dlperf_list is False
        """
    )
    assert suite.run("-n", "1").ret == 0
    result = suite.run("--help")
    result.stdout.fnmatch_lines(["*--dlperf-size*"])
    result = suite.run("-qh")
    result.stdout.fnmatch_lines(["*--dlperf-size*"])


@pytest.mark.parametrize("extra", [(), ("-n", "1")])
def test_an_option_that_another_plugin_adds_is_heard(suite: Suite, extra: tuple[str, ...]):
    (suite.path / "adds.py").write_text(
        "def pytest_load_initial_conftests(args):\n"
        "    args[:] = ['--dlperf-size=tiny', '--dlperf-iterations', '9', *args]\n",
        encoding="utf-8",
    )
    suite.write(
        """
        def test_it(pytestconfig):
            assert pytestconfig.option.dlperf_size == "tiny"
            assert pytestconfig.option.dlperf_iterations == "9"
        """
    )
    assert suite.run("-p", "adds", *extra).ret == 0


@pytest.mark.parametrize("where", ["ini", "variable", "file", "plugin"])
def test_an_option_is_heard_wherever_it_is_given(
    suite: Suite, where: str, monkeypatch: pytest.MonkeyPatch
):
    suite.write(
        """
        def test_it(pytestconfig):
            assert pytestconfig.option.dlperf_size == "tiny"
        """
    )
    given = ()
    if where == "ini":
        (suite.path / "pytest.ini").write_text(
            "[pytest]\naddopts = --dlperf-size=tiny\n", encoding="utf-8"
        )
    elif where == "variable":
        monkeypatch.setenv("PYTEST_ADDOPTS", "--dlperf-size tiny")
    elif where == "file":
        (suite.path / "given").write_text("--dlperf-size\ntiny\n", encoding="utf-8")
        given = ("@given",)
    else:
        given = ("-p", "pytest_dlperf.plugin", "--dlperf-size", "tiny")
    assert suite.run(*given).ret == 0


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
