"""Which byte code a session loads: ours as installed, and pytest's own of tests."""

from __future__ import annotations

import pytest

import pytest_dlperf
from pytest_dlperf.session.byte_code import _InstalledModules
from tests.helpers.fake_suite import Suite

LOADED = """
import sys

def test_loaded(dlperf_loaders):
    assert dlperf_loaders["pytest_dlperf.session.session"] == "SourceFileLoader"
    assert set(dlperf_loaders.values()) == {"SourceFileLoader"}
    assert type(__spec__.loader).__name__ == "AssertionRewritingHook"
"""
#: All that a session with a case has loaded, but what the entry point names, which is first.
LOADERS = """
import sys
import pytest

@pytest.fixture
def dlperf_loaders():
    return {
        name: type(module.__spec__.loader).__name__
        for name, module in sys.modules.items()
        if name.startswith("pytest_dlperf.")
        and name not in ("pytest_dlperf.plugin", "pytest_dlperf.session",
                         "pytest_dlperf.session.byte_code")
    }
"""


@pytest.mark.slow
def test_our_modules_are_loaded_as_installed_and_tests_are_rewritten(suite: Suite):
    suite.write_file("conftest.py", LOADERS)
    suite.write(LOADED, name="test_loaded")
    result = suite.run("--update-baselines", "-rA")
    result.assert_outcomes(passed=3)


def test_the_suites_stay_with_pytest():
    finder = _InstalledModules()
    assert finder.find_spec("pytest_dlperf.suites.tsm.test_tsm") is None
    assert finder.find_spec("pytest_dlperfect.core") is None
    spec = finder.find_spec("pytest_dlperf.core", pytest_dlperf.__path__)
    assert spec is not None
    assert spec.name == "pytest_dlperf.core"
