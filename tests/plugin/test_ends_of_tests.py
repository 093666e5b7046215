"""A case has an outcome in every report, whatever ended its test, and strict mode fails it."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest

from tests.helpers.fake_suite import Suite

HEAD = """
import signal
import unittest

import pytest


def case(suite):
    return pytest.mark.dlperf("w:build", launcher="torchrun", layout="1n1c", suite=suite,
                              batch_size_per_device=4, runs=1, max_runs=1)


@pytest.fixture
def skips():
    pytest.skip("no data in the fixture")


@pytest.fixture
def breaks():
    raise ConnectionError("no server")
"""
#: The body of a test by its suite, with its decorators and arguments.
BODIES = {
    "body": ("", "", "pytest.skip('no data here')"),
    "fixture": ("", "skips, ", "dlperf.run()"),
    "mark": ("@pytest.mark.skip(reason='not today')", "", "dlperf.run()"),
    "condition": ("@pytest.mark.skipif(True, reason='not here')", "", "dlperf.run()"),
    "unittest": ("", "", "raise unittest.SkipTest('as unittest does')"),
    "import": ("", "", "pytest.importorskip('no_such_module')"),
    "unbegun": ("@pytest.mark.xfail(run=False, reason='bug 1')", "", "dlperf.run()"),
    "broken": ("", "breaks, ", "dlperf.run()"),
    "before": ("", "", "assert 1 == 2\n    dlperf.run()"),
    "never": ("", "", "pass"),
    "waived": ("@pytest.mark.xfail(reason='bug 2')", "", "dlperf.run()"),
    "swallowed": (
        "", "",
        "try:\n        dlperf.run()\n    except BaseException:\n        pytest.skip('as ever')",
    ),
}  # fmt: skip
#: The verdict of each, what its sentence has, and whether it fails without strict mode.
EXPECTED = {
    "body": ("not-run", "its test was skipped (no data here)", False),
    "fixture": ("not-run", "its test was skipped (no data in the fixture)", False),
    "mark": ("not-run", "its test was skipped (not today)", False),
    "condition": ("not-run", "its test was skipped (not here)", False),
    "unittest": ("not-run", "its test was skipped (as unittest does)", False),
    "import": ("not-run", "could not import 'no_such_module'", False),
    "unbegun": ("not-run", "its test did not reach dlperf.run() (xfail: ", False),
    "broken": ("error", "its test failed before it began (ConnectionError: no server)", True),
    "before": ("error", "its test failed before dlperf.run() (", True),
    "never": ("error", "its test never called dlperf.run()", True),
    "waived": ("error", "ValueError: boom", False),
    "swallowed": ("error", "ValueError: boom", True),
}


def all_tests() -> str:
    return HEAD + "".join(
        f"\n\n@case('{suite}')\n{mark}\ndef test_{suite}({fixtures}dlperf):\n    {body}\n"
        for suite, (mark, fixtures, body) in BODIES.items()
    )


def by_suite(outcomes: dict[str, Any]) -> dict[str, tuple[str, str, bool]]:
    return {
        one["case"]["suite"]: (
            one["judgement"]["verdict"], one["judgement"]["reason"], one["failed"],
        )
        for one in outcomes.values()
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strict", "extra"),
    [
        ((), ()),
        pytest.param((), ("-n1",), marks=pytest.mark.nightly),
        pytest.param(("--dlperf-strict",), (), marks=pytest.mark.nightly),
        (("--dlperf-strict",), ("-n1",)),
    ],
    ids=["lenient-alone", "lenient-xdist", "strict-alone", "strict-xdist"],
)
def test_every_end_is_an_outcome_in_every_report(
    suite: Suite, strict: tuple[str, ...], extra: tuple[str, ...]
):
    suite.write(all_tests())
    suite.env(FAKE_FAIL="*")
    reports = ("--junitxml=j.xml", "--dlperf-md=c.md", "--dlperf-html=p.html")
    result, outcomes = suite.outcomes(*strict, *reports, *extra)
    assert result.ret == 1
    found = by_suite(outcomes)
    assert list(found) == list(BODIES)
    for name, (verdict, words, fails) in EXPECTED.items():
        assert found[name][0] == verdict, name
        assert words in found[name][1], name
        assert found[name][2] == (fails or bool(strict)), name
    failed = sum(fails or bool(strict) for _, _, fails in EXPECTED.values())
    counts = result.parseoutcomes()
    assert counts.get("failed", 0) + counts.get("errors", 0) == failed
    assert ("6 not-run in" in result.stdout.lines[-1]) != bool(strict)
    assert counts.get("xfailed", 0) == (0 if strict else 2)
    result.stdout.fnmatch_lines(["*12 cases: 5 error, 7 not-run*"])
    assert "never ran" not in result.stdout.str()
    page, comment = ((suite.path / name).read_text("utf-8") for name in ("p.html", "c.md"))
    verdicts = {}
    for case in ElementTree.parse(suite.path / "j.xml").iter("testcase"):
        for one in case.iter("property"):
            if one.get("name") == "dlperf_verdict":
                verdicts[str(case.get("name")).partition("[")[0]] = one.get("value")
    for name, (verdict, _, _) in EXPECTED.items():
        assert name in page
        assert name in comment
        assert verdicts[f"test_{name}"] == verdict


@pytest.mark.slow
def test_a_slowdown_is_waived_by_xfail_but_not_in_strict_mode(suite: Suite):
    marked = f"{HEAD}\n@case('net')\n@pytest.mark.xfail\ndef test_net(dlperf):\n    dlperf.run()\n"
    suite.write(marked)
    suite.run("--update-baselines", "--dlperf-runs=3")
    suite.env(FAKE_STEP_S=0.03)
    for strict, code, word in (((), 0, "xfailed"), (("--dlperf-strict",), 1, "failed")):
        result, outcomes = suite.outcomes("--dlperf-runs=3", *strict)
        assert result.ret == code
        assert result.parseoutcomes() == {word: 1}
        [outcome] = outcomes.values()
        assert outcome["judgement"]["verdict"] == "regressed"
        assert outcome["failed"] == bool(strict)


@pytest.mark.nightly
def test_what_a_test_waives_after_a_verdict_that_passed_stays_waived_in_strict_mode(suite: Suite):
    suite.write(
        f"""{HEAD}
@case("mark")
@pytest.mark.xfail(reason="bug 3")
def test_mark(dlperf):
    dlperf.run()
    assert 1 == 2


@case("call")
def test_call(dlperf):
    dlperf.run()
    pytest.xfail("bug 4")
"""
    )
    assert suite.run("--update-baselines").ret == 0
    result, outcomes = suite.outcomes("--dlperf-strict", "--junitxml=j.xml")
    assert result.ret == 0
    assert result.parseoutcomes() == {"xfailed": 2}
    assert {o["judgement"]["verdict"] for o in outcomes.values()} == {"passed"}
    waived = ElementTree.parse(suite.path / "j.xml").iter("skipped")
    assert [one.get("type") for one in waived] == ["pytest.xfail", "pytest.xfail"]


@pytest.mark.slow
def test_a_projects_own_alarm_is_an_error_that_names_it(suite: Suite):
    suite.write(
        f"""{HEAD}
@pytest.fixture
def limit():
    def ring(number, frame):
        raise TimeoutError("this project gives a test 2 s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(2)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@case("net")
def test_net(limit, dlperf):
    dlperf.run()
"""
    )
    suite.env(FAKE_HANG="*")
    result, outcomes = suite.outcomes()
    assert result.ret == 1
    [outcome] = outcomes.values()
    reason = outcome["judgement"]["reason"]
    assert outcome["judgement"]["verdict"] == "error"
    assert f"while run 1 of {outcome['case']['id']} was at iteration 0, an error that" in reason
    assert "TimeoutError: this project gives a test 2 s" in reason
    assert suite.ours() == []


@pytest.mark.slow
def test_the_end_of_the_session_by_a_test_is_no_success(suite: Suite):
    suite.write(
        f"{HEAD}\n@case('net')\ndef test_net(dlperf):\n    pytest.exit('enough', returncode=0)\n"
    )
    result, outcomes = suite.outcomes("--dlperf-strict")
    assert result.ret == 1
    [outcome] = outcomes.values()
    assert outcome["judgement"]["verdict"] == "not-run"


SKIPPED = "import pytest\npytest.importorskip('no_such_module')\n"


@pytest.mark.slow
def test_a_file_that_is_skipped_as_a_whole_fails_in_strict_mode_alone(suite: Suite):
    suite.write(f"{SKIPPED}{HEAD}\n")
    suite.write_file("test_other.py", "def test_other():\n    pass\n")
    assert suite.run().ret == 0
    result = suite.run("--dlperf-strict")
    assert result.ret == 2
    result.stdout.fnmatch_lines(["*test_net.py: the file is skipped as a whole*"])


@pytest.mark.slow
def test_a_folder_that_its_conftest_skips_fails_in_strict_mode_alone(suite: Suite):
    (suite.path / "test_net.py").unlink()
    (suite.path / "perf/deep").mkdir(parents=True)
    suite.write_file("perf/conftest.py", SKIPPED)
    suite.write(f"{HEAD}\n@case('net')\ndef test_net(dlperf):\n    pass\n", "perf/deep/test_net")
    suite.write_file("test_other.py", "def test_other():\n    pass\n")
    assert suite.run().ret == 0
    result = suite.run("--dlperf-strict")
    assert result.ret == 2
    result.stdout.fnmatch_lines(
        ["perf: the folder is skipped as a whole (*), and deep/test_net.py has tests marked*"]
    )


@pytest.mark.slow
def test_a_skipped_file_without_a_perf_test_is_pytests_own_affair(suite: Suite):
    suite.write(f"{SKIPPED}# pytest-dlperf cannot run this\nNAME = 'dlperf'\n")
    suite.write_file("test_other.py", "def test_other():\n    pass\n")
    result = suite.run("--dlperf-strict")
    assert result.ret == 0
    assert result.parseoutcomes() == {"passed": 1, "skipped": 1}


@pytest.mark.slow
def test_subtests_are_of_one_case(suite: Suite):
    suite.write(
        f"""{HEAD}
@case("net")
def test_net(dlperf, subtests):
    with subtests.test("before"):
        pass
    outcome = dlperf.run()
    for name in ("a", "b"):
        with subtests.test(name):
            assert outcome.case
"""
    )
    result, outcomes = suite.measured("--update-baselines")
    assert result.ret == 0
    assert len(outcomes) == 1
    result.stdout.fnmatch_lines(["1 case: 1 written to the baselines"])
    [baseline] = suite.baselines().values()
    assert len(baseline["sessions"]) == 1
    assert suite.run("--dlperf-resume=r.json").ret == 0


@pytest.mark.slow
def test_a_worker_that_is_gone_leaves_an_error(suite: Suite):
    suite.write(f"{HEAD}\n@case('net')\ndef test_net(dlperf):\n    import os\n    os._exit(3)\n")
    result, outcomes = suite.outcomes("-n1")
    assert result.ret == 1
    [outcome] = outcomes.values()
    assert outcome["judgement"]["verdict"] == "error"
    assert "the process of its test was gone (" in outcome["judgement"]["reason"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "extra", [(), pytest.param(("-n1",), marks=pytest.mark.nightly)], ids=["alone", "xdist"]
)
def test_a_case_that_a_conftest_keeps_from_running_is_not_run(
    suite: Suite, extra: tuple[str, ...]
):
    suite.write(
        f"""{HEAD}
@case("net")
def test_net(dlperf):
    dlperf.run()


@case("kept")
def test_kept(dlperf):
    dlperf.run()
"""
    )
    assert suite.run("--update-baselines").ret == 0
    suite.write_file(
        "conftest.py",
        """
        def pytest_runtest_protocol(item):
            return True if item.name.startswith("test_kept") else None
        """,
    )
    result, outcomes = suite.outcomes("--dlperf-strict", "--junitxml=j.xml", *extra)
    assert result.ret == 1
    assert by_suite(outcomes)["net"][0] == "passed"
    verdict, reason, failed = by_suite(outcomes)["kept"]
    assert (verdict, failed) == ("not-run", True)
    assert "its test was never reported" in reason
    failures = ElementTree.parse(suite.path / "j.xml").iter("failure")
    assert ["never reported" in str(one.get("message")) for one in failures] == [True]
