"""The page of a history: every series, its chart, its changes; sound in a browser."""

from __future__ import annotations

import base64
import gzip
import json
import re
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from history_builders import case, days, outcome

from pytest_dlperf import cli
from pytest_dlperf.history.address import Address, parse_address
from pytest_dlperf.history.append import append

pytest.importorskip("otava", reason="Apache Otava is not installed (tox env history)")

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
    assert [one["remarks"] for one in hollow["data"]["values"]] == ["injected"]
    assert len(points["data"]["values"]) == 40
    low, high = points["encoding"]["y"]["scale"]["domain"]
    assert 800 < low < high < 1100


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
