"""The page of a history: every series, its chart, its changes; sound in a browser."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pytest_dlperf import cli
from pytest_dlperf.core.command_results import Point, Series
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.report.page import history_page
from pytest_dlperf.report.page.series_chart import series_chart
from pytest_dlperf.report.page.shown_series import ShownSeries
from pytest_dlperf.report.page.svg import draw
from pytest_dlperf.store.history.address import Address, parse_address
from pytest_dlperf.store.history.append import append
from tests.helpers.chromium import chromium
from tests.helpers.history_builders import case, commit, days, outcome

pytest.importorskip("otava", reason="Apache Otava is not installed (tox env outputs)")

NASTY = "n<script>alert(1)</script>节点"


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DLPERF_HISTORY", raising=False)
    address: Address = parse_address(".dlperf/history.sqlite", folder=tmp_path, what="test")
    slowed = list(days(40, changed_on=20))
    injected = outcome(50, rates=(10.0,), inject=0.5)
    steady = days(40, of=case(layout="1n1g"), node=NASTY)
    append(address, "s", [*slowed, injected, *steady, outcome(60, of=case(layout="2n8g"))])
    assert cli.main(["history", "export", "--html=h.html"]) == 0
    return Path("h.html").read_text(encoding="utf-8")


def charts(page: str) -> list[ElementTree.Element]:
    return [
        ElementTree.fromstring(one)
        for one in re.findall(r'<svg class="drawn wide.*?</svg>', page, re.S)
    ]


def group(chart: ElementTree.Element, kind: str) -> list[ElementTree.Element]:
    """Return the marks of a shape and style."""
    groups = (one for one in chart.iter("g") if one.get("class") == kind)
    return [mark for one in groups for mark in one.iter() if mark.find("title") is not None]


def told(marks: list[ElementTree.Element]) -> list[str]:
    return [str(mark.findtext("title")) for mark in marks]


def test_every_series_has_a_row_and_a_chart_and_changes_come_first(page: str):
    rows = re.findall(r'<tr data-key="(\d)" data-verdict="passed" data-changed="(\w+)">', page)
    assert rows == [("0", "slower"), ("1", "steady"), ("2", "steady")]
    assert len(charts(page)) == 3
    assert "82 outcomes in 3 series" in page
    assert "1 change of a level; left out of the levels: 1 injected" in page
    assert NASTY not in page
    # Its name, and no folder of this machine
    assert '<p class="quiet"><bdi>history.sqlite</bdi> · ' in page
    assert str(Path.cwd()) not in page
    assert "n&lt;script&gt;alert(1)&lt;/script&gt;节点" in page


def test_charts_mark_levels_and_commits(page: str):
    chart = charts(page)[0]
    before, after = (float(one.split()[1]) for one in told(group(chart, "rule found")))
    assert after / before == pytest.approx(0.96, abs=0.01)
    (mark,) = group(chart, "flag bad")
    assert "after commit" in told([mark])[0]
    points = group(chart, "dot good")
    assert len(points) == 40
    across = [float(str(point.get("cx"))) for point in points]
    # The first outcome of the new level is the twenty-first
    place = float(str(re.match(r"M([\d.]+) ", str(mark.get("d")))[1]))
    assert across[19] < place < across[20]
    first = told(points)[0].splitlines()
    assert first[0] == f"2026-09-01 02:00:00 UTC, commit {commit(0)[:7]}"
    assert first[1].startswith("passed: 10")
    (hollow,) = group(chart, "dot good aside")
    assert told([hollow])[0].endswith("\ninjected")
    # Far below, at the edge
    assert float(str(hollow.get("cy"))) > max(float(str(one.get("cy"))) for one in points)
    labels = [str(one.text) for one in chart.iter("text")]
    assert commit(0)[:7] in labels
    assert {"commit, in order of time", "samples/s"} <= set(labels)


def test_a_commit_that_was_measured_again_is_named_once_and_a_text_stays_one():
    strange = '\'];x("1")//'
    one, other = outcome(0, commit="a" * 40), outcome(1, commit="a" * 40)
    points = [point_of(i, one) for i, one in enumerate((one, other, outcome(2, commit=strange)))]
    series = Series(
        case_id="c", machine_class="", node="", unit="samples", conditions={}, points=tuple(points)
    )
    drawn = series_chart(ShownSeries(series=series))
    assert drawn is not None
    assert [tick.label for tick in drawn.chart.x.ticks or ()] == ["a" * 7, "", strange[:7]]
    assert strange[:7] not in draw(drawn.chart)
    assert "&#x27;];x(&quot;1<" in draw(drawn.chart)


def point_of(number: int, one: Outcome) -> Point:
    return Point(
        number=number, time=one.time, commit=one.commit, dirty=False, verdict="passed",
        throughput=101.0, change=None, speedup=None, peak_memory_bytes=None, runs=3, mode="",
        left_out="",
    )  # fmt: skip


def test_labels_of_ninety_sessions_do_not_overlap(tmp_path: Path):
    address = parse_address("h.sqlite", folder=tmp_path, what="test")
    append(address, "s", days(90))
    file = tmp_path / "h.html"
    assert cli.main(["history", "export", f"--history={address.file}", f"--html={file}"]) == 0
    with chromium() as browser:
        shown = browser.new_page()
        shown.goto(file.as_uri())
        boxes = [
            (label.bounding_box(), label.inner_html())
            for label in shown.query_selector_all("figure svg .labels text")
        ]
    commits = {commit(day)[:7] for day in range(90)}
    ends = sorted((box["x"], box["x"] + box["width"]) for box, told in boxes if told in commits)
    assert len(ends) > 3
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(ends))


def test_a_browser_draws_it_and_filters_it(page: str, tmp_path: Path):
    errors: list[str] = []
    with chromium() as browser:
        shown = browser.new_page()
        shown.on("console", lambda message: errors.append(message.text))
        shown.on("pageerror", lambda error: errors.append(str(error)))
        shown.on("request", lambda request: errors.extend([request.url] * ("http" in request.url)))
        shown.goto((tmp_path / "h.html").as_uri())
        assert shown.locator("figure .chart > svg:visible").count() == 3
        shown.click("button[data-value=slower]")
        assert shown.locator("section:visible").count() == 1
        assert shown.locator("output").inner_text() == "1 of 3 series"
    assert errors == []


def test_of_very_many_outcomes_the_newest_of_each_series_are_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(history_page, "_POINTS_MAX", 20)
    monkeypatch.setattr(history_page, "_POINTS_MIN", 5)
    address = parse_address("h.sqlite", folder=tmp_path, what="test")
    append(address, "s", [*days(30), *days(30, of=case(layout="1n1g"))])
    file = tmp_path / "h.html"
    assert cli.main(["history", "export", f"--history={address.file}", f"--html={file}"]) == 0
    text = file.read_text(encoding="utf-8")
    assert [len(group(chart, "dot good")) for chart in charts(text)] == [10, 10]
    assert text.count("10 outcomes, the newest of 30,") == 2
