"""``--dlperf-html``: the page of a session, beside its results."""

from __future__ import annotations

import sys

import pytest

from tests.helpers.fake_suite import Suite


def test_a_session_writes_its_page_and_says_where(suite: Suite):
    result = suite.run("--dlperf-runs=2", "--dlperf-html=out/page.html", "--dlperf-json=r.json")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["page: *out/page.html"])
    page = (suite.path / "out/page.html").read_text(encoding="utf-8")
    assert "2 cases, 2 NOT JUDGED" in page
    # Both have the same sentence, and so one command.
    assert "Run again: <code>pytest &#x27;test_net.py::test_net[net-torch-fp32-bs4-1n1c]" in page
    assert page.count("no baseline to judge against") == 3
    assert page.count('<figure data-chart="runs-') == 2
    assert page.count('<figure data-chart="trace-') == 2
    # Of the same outcomes, read back, comes the same page; names of a mapping are sorted then.
    again = suite.pytester.run(
        sys.executable, "-m", "pytest_dlperf.cli", "report", "r.json", "-o", "again.html"
    )
    assert again.ret == 0
    again = (suite.path / "again.html").read_text(encoding="utf-8")
    assert sorted(again.splitlines()) == sorted(page.splitlines())


@pytest.mark.slow
def test_a_page_that_cannot_be_written_is_said_and_fails_the_session(suite: Suite):
    result = suite.run("--dlperf-runs=2", "--dlperf-html=/proc/none/page.html")
    assert result.ret != 0
    result.stdout.fnmatch_lines(["page NOT written: /proc/none/page.html: *"])
