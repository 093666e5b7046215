"""The page of a history: every series, its chart, its changes; sound in a browser."""

from __future__ import annotations

import base64
import gzip
import itertools
import json
import re
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pytest_dlperf import cli
from pytest_dlperf.core.history import Point, Series
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.report.page.series_chart import series_chart
from pytest_dlperf.store.history.address import Address, parse_address
from pytest_dlperf.store.history.append import append
from tests.helpers.history_builders import case, commit, days, outcome

pytest.importorskip("otava", reason="Apache Otava is not installed (tox env outputs)")

SCHEMA = Path(__file__).parents[1] / "unit/report/vega-lite-6.4.3-schema.json.gz"
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


def charts(page: str) -> dict[str, Any]:
    block = re.search(r'data-block="charts">([^<]*)</script>', page)
    assert block is not None
    drawn: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(block[1])))
    return drawn


def test_every_series_has_a_row_and_a_chart_and_changes_come_first(page: str):
    rows = re.findall(r'<tr data-key="(\d)" data-changed="(\w+)">', page)
    assert rows == [("0", "slower"), ("1", "steady"), ("2", "steady")]
    assert len(charts(page)) == 3
    assert "82 outcomes in 3 series" in page
    assert "1 change of a level; left out of the levels: 1 injected" in page
    assert NASTY not in page
    assert "n&lt;script&gt;alert(1)&lt;/script&gt;节点" in page


def test_charts_mark_levels_and_commits_as_vega_lite_allows(page: str):
    specs = [one["spec"] for one in charts(page).values()]
    schema = json.loads(gzip.decompress(SCHEMA.read_bytes()))
    validator = jsonschema.validators.validator_for(schema)(schema)
    for spec in specs:
        whole = {"$schema": "https://vega.github.io/schema/vega-lite/v6.json", **spec}
        assert list(validator.iter_errors(whole)) == []
    levels, mark, hollow, points = specs[0]["layer"]
    before, after = (level["rate"] for level in levels["data"]["values"])
    assert after / before == pytest.approx(0.96, abs=0.01)
    assert "after commit" in mark["data"]["values"][0]["commits"]
    # The first outcome of the new level is the twenty-first
    assert mark["data"]["values"][0]["place"] == 19.5
    axis = mark["encoding"]["x"]["axis"]
    assert axis["values"] == list(range(41))
    labels = json.loads(axis["labelExpr"].removesuffix("[datum.value]"))
    assert labels == [commit(day)[:12] for day in (*range(40), 50)]
    assert [one["remarks"] for one in hollow["data"]["values"]] == ["injected"]
    assert len(points["data"]["values"]) == 40
    low, high = points["encoding"]["y"]["scale"]["domain"]
    assert 800 < low < high < 1100


def test_a_commit_that_was_measured_again_is_named_once_and_a_text_stays_one():
    strange = '\'];x("1")//'
    one, other = outcome(0, commit="a" * 40), outcome(1, commit="a" * 40)
    points = [point_of(i, one) for i, one in enumerate((one, other, outcome(2, commit=strange)))]
    series = Series(
        case_id="c", machine_class="", node="", unit="samples", conditions={}, points=tuple(points)
    )
    drawn = series_chart(series, ())
    assert drawn is not None
    axis = drawn.spec["layer"][0]["encoding"]["x"]["axis"]
    assert axis["values"] == [0, 2]
    assert axis["labelExpr"] == f"{json.dumps(['a' * 12, 'a' * 12, strange])}[datum.value]"


def point_of(number: int, one: Outcome) -> Point:
    return Point(
        number=number, time=one.time, commit=one.commit, dirty=False, verdict="passed",
        throughput=101.0, change=None, speedup=None, peak_memory_bytes=None, runs=3, mode="",
        left_out="",
    )  # fmt: skip


def test_labels_of_ninety_sessions_do_not_overlap(tmp_path: Path):
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if (chromium := shutil.which("chromium")) is None:
        pytest.skip("no Chromium on PATH: apt-get install chromium")
    address = parse_address("h.sqlite", folder=tmp_path, what="test")
    append(address, "s", days(90))
    file = tmp_path / "h.html"
    assert cli.main(["history", "export", f"--history={address.file}", f"--html={file}"]) == 0
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        shown = browser.new_page()
        shown.goto(file.as_uri())
        shown.query_selector("figure").scroll_into_view_if_needed()
        shown.wait_for_selector("figure svg")
        boxes = [
            (label.bounding_box(), label.inner_html())
            for label in shown.query_selector_all("figure svg .role-axis-label text")
            if label.is_visible() and label.evaluate("e => getComputedStyle(e).opacity") != "0"
        ]
        browser.close()
    commits = {commit(day)[:12] for day in range(90)}
    ends = sorted((box["x"], box["x"] + box["width"]) for box, told in boxes if told in commits)
    assert len(ends) > 3
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(ends))


def test_a_browser_draws_it_and_filters_it(page: str, tmp_path: Path):
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if (chromium := shutil.which("chromium")) is None:
        pytest.skip("no Chromium on PATH: apt-get install chromium")
    errors: list[str] = []
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        shown = browser.new_page()
        shown.on("console", lambda message: errors.append(message.text))
        shown.on("pageerror", lambda error: errors.append(str(error)))
        shown.on("request", lambda request: errors.extend([request.url] * ("http" in request.url)))
        shown.goto((tmp_path / "h.html").as_uri())
        for figure in shown.query_selector_all("figure"):
            figure.scroll_into_view_if_needed()
            shown.wait_for_selector(f"[data-chart={figure.get_attribute('data-chart')}] svg")
        shown.click("button[data-value=slower]")
        assert shown.locator("section:visible").count() == 1
        assert shown.locator("output").inner_text() == "1 of 3 series"
        browser.close()
    assert errors == []
