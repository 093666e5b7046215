"""``known=`` in the marker: measured as ever, and let pass as long as it is as it was said."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from tests.helpers.fake_repository import WIDE
from tests.helpers.fake_suite import Suite

pytestmark = pytest.mark.slow  # many sessions; .ci/run has them


ONE = "net-torch-fp32-bs4-1n1c"
TEST = """
import pytest

@pytest.mark.dlperf("w:build", launcher="torchrun", layout="1n1c", batch_size_per_device=4,
                    tolerance="20%"{known})
def test_net(dlperf):
    dlperf.run()
"""


def declare(suite: Suite, until: str = "", change: str = "-30%") -> None:
    known = {"issue": "#123", "until": until, "change": change}
    suite.write(TEST.format(known=f", known={known}" if until else ""))


SLOW = "--dlperf-inject=40%"


def test_a_known_slowdown_has_a_mark_of_its_own_until_its_day(suite: Suite) -> None:
    declare(suite)
    assert suite.run("--update-baselines").ret == 0

    declare(suite, until="2999-01-01")
    result, outcomes = suite.outcomes(SLOW, "--dlperf-strict", "--junitxml=junit.xml")
    judgement = outcomes[ONE]["judgement"]
    assert (judgement["verdict"], judgement["known"]) == ("regressed", "known")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*1 known in*"])
    skipped = ElementTree.parse(suite.path / "junit.xml").getroot().find(".//skipped")
    assert skipped is not None
    assert "#123" in skipped.get("message", "")

    declare(suite, until="2001-01-01")
    result, outcomes = suite.outcomes(SLOW)
    assert (result.ret, outcomes[ONE]["judgement"]["known"]) == (1, "expired")


@pytest.mark.nightly  # the gate has one that expired; states are in test_known.py of the judge
def test_a_known_slowdown_that_is_worse_or_gone_fails(suite: Suite) -> None:
    declare(suite)
    assert suite.run("--update-baselines").ret == 0

    declare(suite, until="2999-01-01", change="-5%")
    result, outcomes = suite.outcomes(SLOW)
    assert (result.ret, outcomes[ONE]["judgement"]["known"]) == (1, "worse")

    declare(suite, until="2999-01-01")
    result, outcomes = suite.outcomes(WIDE)
    assert (result.ret, outcomes[ONE]["judgement"]["known"]) == (1, "gone")
    result.stdout.fnmatch_lines(["*remove known= from the marker*"])
    result, outcomes = suite.outcomes("--update-baselines", WIDE)
    assert (result.ret, outcomes[ONE]["failed"], outcomes[ONE]["update"]) == (1, True, "appended")


@pytest.mark.parametrize("option", ["--dlperf-list", "--dlperf-dry-run"])
def test_it_is_no_matter_where_nothing_runs(suite: Suite, option: str) -> None:
    declare(suite, until="2001-01-01")
    assert suite.run(option).ret == 0
