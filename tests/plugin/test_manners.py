"""How the plugin behaves among other things: options, ids, lists, other people's --gpus."""

from __future__ import annotations

import pytest

from tests.helpers.fake_suite import Suite

pytestmark = pytest.mark.pytest8

ONE, TWO = "net-torch-fp32-bs4-1n1c", "net-torch-fp32-bs4-1n2c"


@pytest.mark.slow
@pytest.mark.parametrize("quiet", [(), ("-q",)], ids=["", "-q"])
def test_the_summary_has_whole_lines_after_a_test_that_passed(
    suite: Suite, quiet: tuple[str, ...]
):
    """Then pytest's terminal believes that it is in the midst of a line of dots."""
    suite.write("def test_other(): pass", "test_other")
    result = suite.run("--dlperf-runs=1", "-k", "1n1c or other", *quiet)
    assert result.ret == 0
    if quiet:
        result.stdout.re_match_lines([r"dlperf: 1 case: 1 no-baseline; 1 NOT JUDGED$"])
    else:
        result.stdout.re_match_lines([r"=+ dlperf =+$", r"case .* verdict$"], consecutive=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "extra", [(), ("--dlperf-strict",), ("--dlperf-strict", "--tb=no")], ids=str
)
def test_why_a_case_is_not_judged_is_said_once(suite: Suite, extra: tuple[str, ...]):
    """In the section of failures where there is one, else in the summary."""
    suite.env(FAKE_OTHERS=0.4)
    result = suite.run("-k", "1n1c", "--dlperf-runs=1", *extra)
    assert result.ret == (1 if extra else 0)
    result.stdout.fnmatch_lines(["*run 1/1: *; does not count: others used * of host *"])
    words = "others disturbed its runs; compare in pairs with --dlperf-against=main, or"
    said = [line for line in result.outlines if words in line]
    assert len(said) == 1, result.stdout.str()
    told = ["  as its failure above says" in line for line in result.outlines]
    assert any(told) is (extra == ("--dlperf-strict",))


@pytest.mark.slow
def test_a_session_that_measured_nothing_fails(suite: Suite):
    suite.write(
        """
        import pytest
        @pytest.mark.dlperf("w:build", precision="amp", layout="1n1c", batch_size_per_device=4)
        def test_net(dlperf):
            dlperf.run()
        """
    )
    result = suite.run()
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*nothing was measured*"])
    assert suite.run("-n1").ret == 1


@pytest.mark.parametrize("extra", [(), ("-n1",)])
def test_perf_cases_that_are_all_skipped_are_not_a_success(suite: Suite, extra: tuple[str, ...]):
    (suite.path / "conftest.py").write_text(
        "import pytest\ndef pytest_runtest_setup(item):\n    pytest.skip('not today')\n",
        encoding="utf-8",
    )
    result, outcomes = suite.outcomes(*extra)
    assert result.ret == 1
    assert {o["judgement"]["verdict"] for o in outcomes.values()} == {"not-run"}
    assert "its test was skipped (not today)" in outcomes[ONE]["judgement"]["reason"]
    result.stdout.fnmatch_lines(["*2 cases: 2 not-run*", "*nothing was measured of 2*"])


def test_a_session_without_perf_cases_is_left_alone(suite: Suite):
    suite.write("def test_x(): pass\n")
    result, outcomes = suite.outcomes()
    assert (result.ret, outcomes) == (0, {})
    result.stdout.no_fnmatch_line("*= dlperf =*")


def test_two_items_with_one_id_are_a_collection_error(suite: Suite):
    marked = (
        "import pytest\n"
        "@pytest.mark.dlperf('w:build', suite='net', layout='1n1c', batch_size_per_device=4)\n"
        "def test_again(dlperf):\n    dlperf.run()\n"
    )
    (suite.path / "test_again.py").write_text(marked, encoding="utf-8")
    result = suite.run()
    assert result.ret == 4
    text = result.stdout.str() + result.stderr.str()
    assert f"case id {ONE} is declared twice" in text
    assert "test_again.py" in text
    assert "test_net.py" in text


@pytest.mark.slow
def test_a_marker_that_cannot_be_meant_is_an_error_of_its_test(suite: Suite):
    suite.write(
        "import pytest\n"
        "@pytest.mark.dlperf('w:build', layout='1n1x', batch_size_per_device=4)\n"
        "def test_net(dlperf):\n    dlperf.run()\n"
    )
    result = suite.run()
    assert result.ret == 2
    assert "unknown layout '1n1x'" in result.stdout.str()
    result.stdout.no_fnmatch_line("*Traceback*")


def test_a_test_that_never_runs_its_case_fails(suite: Suite):
    suite.write(
        "import pytest\n"
        "@pytest.mark.dlperf('w:build', layout='1n1c', batch_size_per_device=4)\n"
        "def test_net(dlperf):\n    pass\n"
    )
    result = suite.run()
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*never called dlperf.run()*"])


@pytest.mark.slow
def test_a_marker_without_the_fixture_and_a_fixture_without_the_marker(suite: Suite):
    suite.write(
        "import pytest\n"
        "@pytest.mark.dlperf('w:build', layout='1n1c', batch_size_per_device=4)\n"
        "def test_net():\n    pass\n"
    )
    result = suite.run()
    assert result.ret == 2
    result.stdout.fnmatch_lines(["*must take the fixture dlperf*"])
    result.stdout.no_fnmatch_line("*During handling*")
    suite.write("def test_net(dlperf):\n    dlperf.run()\n")
    result = suite.run()
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*this test has none*"])


@pytest.mark.slow
def test_last_failed_and_exitfirst(suite: Suite):
    suite.env(FAKE_FAIL="*1n2c*")
    result = suite.pytester.runpytest_subprocess("--dlperf-runs=1")
    assert result.ret == 1
    suite.env(FAKE_FAIL="")
    result = suite.pytester.runpytest_subprocess("--dlperf-runs=1", "--lf")
    result.stdout.fnmatch_lines(["*1 case: 1 no-baseline*"])
    suite.env(FAKE_FAIL="*")
    result = suite.run("--dlperf-runs=1", "-x")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*2 cases: 1 error, 1 not-run; 1 NOT JUDGED*"])


def test_a_run_without_perf_cases_imports_nothing_of_ours(suite: Suite):
    suite.write(
        "import sys\n"
        "def test_x():\n"
        "    heavy = {'numpy', 'scipy', 'filelock', 'torch', 'paddle', 'tensorflow'}\n"
        "    assert not heavy & set(sys.modules)\n"
        "    ours = {m for m in sys.modules if m.startswith('pytest_dlperf')}\n"
        "    session = {'byte_code', 'options'}\n"
        "    assert ours == {'pytest_dlperf', 'pytest_dlperf.plugin', 'pytest_dlperf.session',\n"
        "                    *(f'pytest_dlperf.session.{name}' for name in session)}\n"
    )
    suite.run().assert_outcomes(passed=1)


@pytest.mark.slow
def test_a_first_run_of_a_case_imports_no_numpy(suite: Suite):
    """Its import takes a tenth of a second; logs and stored sessions need it, and no other."""
    suite.pytester.makeconftest(
        "import sys\n"
        "def pytest_unconfigure():\n"
        "    print('imported:', sorted({'numpy', 'scipy', 'pytest_dlperf'} & set(sys.modules)))\n"
    )
    result = suite.run("--dlperf-runs=1", "-k", "1n2c")
    result.stdout.fnmatch_lines(["*1 case: 1 no-baseline*", "imported: ['pytest_dlperf']"])


def test_a_run_without_perf_cases_calls_us_for_no_test(suite: Suite):
    """Of our hooks, those that pytest calls for every test are gone once it has collected."""
    suite.write(
        "PER_TEST = ('pytest_runtest_', 'pytest_report_teststatus', 'pytest_fixture_',\n"
        "            'pytest_pyfunc_call', 'pytest_assertion_pass', 'pytest_exception_interact',\n"
        "            'pytest_itemcollected')\n"
        "def ours(request):\n"
        "    manager = request.config.pluginmanager\n"
        "    plugins = {p: manager.get_name(p) or '' for p in manager.get_plugins()}\n"
        "    return {caller.name\n"
        "            for plugin, name in plugins.items()\n"
        "            if name.startswith(('pytest_dlperf', 'dlperf-'))\n"
        "            for caller in manager.get_hookcallers(plugin) or ()}\n"
        "def test_x(request):\n"
        "    found = ours(request)\n"
        "    assert 'pytest_configure' in found\n"
        "    assert not {name for name in found if name.startswith(PER_TEST)}\n"
    )
    suite.run().assert_outcomes(passed=1)
    suite.run("-n1").assert_outcomes(passed=1)


def test_what_was_left_out_is_counted_and_said(suite: Suite):
    suite.write(
        """
        import pytest
        @pytest.mark.dlperf("w:build", launcher="torchrun", layout=["1n1c", "1n4096c", "1n8g"],
                            batch_size_per_device=4)
        def test_net(dlperf):
            dlperf.run()
        """
    )
    result = suite.run("--dlperf-runs=1")
    result.stdout.fnmatch_lines(
        ["*1n4096c needs 4096 cores*", "*1n8g needs 8 GPUs*", "*2 deselected*"]
    )


@pytest.mark.slow
def test_a_test_that_swallows_the_failure_still_fails(suite: Suite):
    suite.env(FAKE_FAIL="*")
    suite.write(
        """
        import pytest
        @pytest.mark.dlperf("w:build", launcher="torchrun", layout="1n1c",
                            batch_size_per_device=4)
        def test_net(dlperf):
            try:
                dlperf.run()
            except BaseException:
                pass
        """
    )
    result = suite.run()
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*the test went on after dlperf.run() had failed*"])
