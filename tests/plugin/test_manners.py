"""How the plugin behaves among other things: options, ids, lists, other people's --gpus."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from itertools import pairwise

import pytest

from tests.helpers.fake_suite import Suite

pytestmark = pytest.mark.pytest8

ONE, TWO = "net-torch-fp32-bs4-1n1c", "net-torch-fp32-bs4-1n2c"


def test_a_framework_that_is_not_installed(suite: Suite):
    suite.write(
        """
        import pytest
        @pytest.mark.dlperf("w:build", framework=["torch", "paddle"], launcher="torchrun",
                            layout="1n1c", batch_size_per_device=4)
        def test_net(dlperf):
            dlperf.run()
        """
    )
    result, outcomes = suite.outcomes("--dlperf-runs=1")
    assert result.ret == 0
    paddle = outcomes["net-paddle-fp32-bs4-1n1c"]["judgement"]
    assert paddle["verdict"] == "not-run"
    assert "pip install 'pytest-dlperf[paddle]'" in paddle["reason"]
    result.stdout.fnmatch_lines(["*2 cases: 1 not-run, 1 no-baseline; 2 NOT JUDGED*"])

    result = suite.run("--dlperf-runs=1", "--update-baselines")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*1 not-run, 1 written to the baselines; 1 NOT JUDGED*"])

    result, outcomes = suite.outcomes("--dlperf-framework=paddle")
    assert result.ret == 1
    assert outcomes["net-paddle-fp32-bs4-1n1c"]["judgement"]["verdict"] == "error"


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


@pytest.mark.nightly  # the gate has its main way
def test_a_gpu_that_vanished_is_an_error_also_beside_cpu_layouts(suite: Suite):
    suite.write(
        """
        import pytest
        @pytest.mark.dlperf("w:build", launcher="torchrun", layout=["1n1c", "1n1g"],
                            batch_size_per_device=4)
        def test_net(dlperf):
            dlperf.run()
        """
    )
    suite.env(DLPERF_MACHINE_CLASS="1x-test")
    assert suite.run("--update-baselines").ret == 0
    folder = suite.path / "baselines" / "1x-test" / "net"
    text = (folder / f"{ONE}.json").read_text(encoding="utf-8")
    gpu = ONE.replace("1n1c", "1n1g")
    (folder / f"{gpu}.json").write_text(text.replace(ONE, gpu), encoding="utf-8")
    result = suite.run()
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*1n1g needs 1 GPUs*a device vanished; see dlperf doctor*"])


def test_more_than_there_is_is_an_error_that_starts_nothing(suite: Suite):
    log = suite.path / "launches"
    suite.env(FAKE_LOG=log)
    result, outcomes = suite.outcomes("--gpus=8", "--cpus=1", "--dlperf-against=PYTHONHASHSEED=1")
    result.assert_outcomes(passed=1, failed=1)
    asked = outcomes[ONE.replace("1n1c", "1n8g")]
    assert asked["judgement"]["verdict"] == "error"
    assert asked["judgement"]["reason"].endswith("or leave --gpus and --cpus out")
    # What says where it was asked
    assert asked["environment"]["machine_class"]
    assert asked["against"]["name"] == "PYTHONHASHSEED=1"
    assert "1n8g" not in log.read_text(encoding="utf-8")


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


def test_a_broken_baseline_of_another_case_is_reported_and_stops_nothing(suite: Suite):
    broken = suite.path / "baselines" / "8x-other" / "foo" / "foo-torch-fp32-bs1-1n1g.json"
    broken.parent.mkdir(parents=True)
    broken.write_text("{", encoding="utf-8")
    result, outcomes = suite.outcomes("--dlperf-runs=1")
    assert result.ret == 0
    assert {o["judgement"]["verdict"] for o in outcomes.values()} == {"no-baseline"}
    result.stdout.fnmatch_lines([f"*{broken.name}: line 1*"])
    listed = suite.run("--dlperf-list")
    listed.stdout.fnmatch_lines(["foo-torch-fp32-bs1-1n1g.json*broken: *"])


def test_the_users_own_folders_are_left_alone(suite: Suite):
    (suite.path / ".gitignore").write_text("mine\n", encoding="utf-8")
    folders = [suite.path / f"old{i}" for i in range(15)]
    for folder in folders:
        folder.mkdir()
        os.utime(folder, (0, 0))
    assert suite.run("--dlperf-runs=1", "--dlperf-workdir=.").ret == 0
    assert (suite.path / ".gitignore").read_text(encoding="utf-8") == "mine\n"
    assert all(folder.exists() for folder in folders)


def test_only_the_last_ten_sessions_are_kept(suite: Suite):
    work = suite.path / ".dlperf"
    suite.run("--dlperf-runs=1", "-k", ONE)
    [first] = [mark.parent for mark in work.glob("*/.dlperf-session")]
    for age in range(1, 11):
        mark = shutil.copytree(first, work / f"older{age}") / ".dlperf-session"
        os.utime(mark, (mark.stat().st_atime, mark.stat().st_mtime - age))
    (work / "mine").mkdir()
    suite.run("--dlperf-runs=1", "-k", ONE)
    kept = {mark.parent.name for mark in work.glob("*/.dlperf-session")}
    assert len(kept) == 10
    assert kept > {first.name, *(f"older{age}" for age in range(1, 9))}
    assert not any((work / f"older{age}").exists() for age in (9, 10))
    assert (work / "mine").is_dir()


@pytest.mark.nightly
def test_a_shared_host_measures_a_parent_once(suite: Suite):
    suite.env(FAKE_WALL_S=0.3)
    result, outcomes = suite.outcomes("--dlperf-share-host", "-n2", "--dlperf-runs=2")
    assert result.ret == 0
    assert {o["judgement"]["verdict"] for o in outcomes.values()} == {"no-baseline"}


def test_the_line_that_reproduces_does(suite: Suite):
    folder = suite.path / "sub"
    folder.mkdir()
    (suite.path / "test_net.py").rename(folder / "test_net.py")
    (suite.path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    assert suite.run("--update-baselines").ret == 0
    os.chdir(folder)
    result = suite.run("--cpus=1,2", "--dlperf-inject=*-1n2c:40%", "--dlperf-json", "r.json")
    [line] = [line for line in result.outlines if "reproduce: pytest" in line]
    command = shlex.split(line.partition("pytest ")[2])
    assert "r.json" not in command
    again = suite.run(*command)
    again.assert_outcomes(failed=1)
    again.stdout.fnmatch_lines([f"*{TWO}*regressed*"])


def test_the_waiting_of_one_pytest_for_another(suite: Suite):
    """Two sessions at once: cases never overlap, and both store what they measured."""
    import subprocess

    log = suite.path / "launches"
    suite.env(FAKE_LOG=log, FAKE_WALL_S=0.1)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--update-baselines"]
    # Not the same rates: two outcomes of one second with one rate are one, stored once.
    sessions = [
        subprocess.Popen(
            [*command, "--dlperf-runs=2"],
            cwd=suite.path,
            env={**os.environ, "FAKE_STEP_S": step_s},
            stdout=subprocess.PIPE,
        )
        for step_s in ("0.01", "0.010001")
    ]
    outputs = [session.communicate(timeout=120)[0].decode() for session in sessions]
    assert [session.returncode for session in sessions] == [0, 0], outputs
    assert [len(b["sessions"]) for b in suite.baselines().values()] == [2, 2]
    starts = sorted(float(line.split()[1]) for line in log.read_text().splitlines())
    assert len(starts) == 8
    assert all(later - earlier >= 0.1 for earlier, later in pairwise(starts))
