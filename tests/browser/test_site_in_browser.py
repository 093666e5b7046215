"""The site of a history in a real browser: it fits, its points lead somewhere, nothing is cut."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("otava", reason="Apache Otava is not installed (tox env outputs)")

from pytest_dlperf import cli
from pytest_dlperf.core.baseline import ReplacedLevel
from pytest_dlperf.core.verdict import Comparison, Judgement, Verdict
from pytest_dlperf.store.baseline.store import BaselineStore
from pytest_dlperf.store.history.address import parse_address
from pytest_dlperf.store.history.append import append
from tests.helpers import baseline_builders
from tests.helpers.history_builders import case, days

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from pytest_dlperf.core.outcome import Outcome

LONG = case(suite="a_suite_with_a_long_name", layout="16n8g")
SIZES = pytest.mark.parametrize("width", [1280, 400])
#: Cases, with the day of the change and its size.
CASES = ((case(), 12, -0.08), (LONG, 14, -0.1), (case(layout="1n1g"), None, 0.0))


def judged(outcome: Outcome, day: int) -> Outcome:
    """Return it with the verdict that its rate has, some of other kinds, some without a level."""
    assert outcome.measurement is not None
    share = outcome.measurement.throughput / 1000.0 - 1
    verdict = Verdict.REGRESSED if share < -0.05 else Verdict.PASSED
    if day == 7:
        failed = Judgement(verdict=Verdict.ERROR, reason="a rank ended with code 1")
        return replace(outcome, judgement=failed, measurement=None)
    if day in {3, 4}:
        verdict = Verdict.INCOMPARABLE
    comparison = Comparison(
        now=outcome.measurement.throughput, before=1000.0, change=share, tolerance=0.05,
        interval=(share - 0.01, share + 0.01), verdict=verdict,
    )  # fmt: skip
    if day < 2:
        verdict, comparison = Verdict.NO_BASELINE, Comparison()
    return replace(
        outcome, judgement=Judgement(verdict=verdict, reason="so it is", throughput=comparison)
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of a regression, an accepted change, failures, and sessions without a level."""
    folder = tmp_path_factory.mktemp("site")
    address = parse_address("team.sqlite", folder=folder, what="test")
    of_cases = [
        days(24, of=of, changed_on=changed_on, change=share) for of, changed_on, share in CASES
    ]
    for day, outcomes in enumerate(zip(*of_cases, strict=True)):
        append(address, f"session{day}", [judged(outcome, day) for outcome in outcomes])
    level = ReplacedLevel(
        replaced="2026-09-15T10:00:00Z", reason="masks are checked now, which takes a while",
        unit="samples", sessions=(baseline_builders.session(second=1),),
    )  # fmt: skip
    stored = baseline_builders.baseline(
        baseline_builders.session(second=2, commit="c0ffee0" * 5),
        case_id=LONG.id, suite=LONG.suite, machine_class="8x-v100-sxm2-32gb", history=(level,),
    )  # fmt: skip
    BaselineStore(folder / "baselines").write(stored)
    words = ["history", "site", str(folder / "site"), f"--history={address.file}"]
    assert cli.main([*words, f"--baselines={folder / 'baselines'}"]) == 0
    return folder / "site"


@pytest.fixture
def page(browser: Browser, width: int) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": width, "height": 900})
    context.set_default_timeout(20_000)
    yield context.new_page()
    context.close()


def open_page(page: Page, path: Path) -> None:
    page.goto(path.as_uri())


def overflow(page: Page) -> int:
    wide: int = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return wide


@SIZES
def test_no_page_is_wider_than_its_window(site: Path, page: Page) -> None:
    for path in sorted(site.rglob("*.html")):
        open_page(page, path)
        assert overflow(page) <= 0, path
    # Nor has the first page anything beyond an edge of its table
    open_page(page, site / "index.html")
    inner = page.evaluate(
        "[...document.querySelectorAll('.wide')].map(e => e.scrollWidth - e.clientWidth)"
    )
    assert inner == [0]
    assert page.locator("#series tbody tr").count() == len(CASES)


@pytest.mark.parametrize("width", [1280])
def test_a_point_leads_to_its_session_in_a_file_that_is_there(site: Path, page: Page) -> None:
    open_page(page, site / f"case/{CASES[0][0].id}.html")
    points = page.locator("figure .chart a")
    assert points.count() == 24
    target: dict[str, Any] = points.nth(20).evaluate("a => ({href: a.href.baseVal})")
    file, _, anchor = target["href"].partition("#")
    assert (site / "case" / file).resolve().is_file()
    points.nth(20).click()
    page.wait_for_url("**/sessions.html#*")
    row = page.locator(f"#{anchor}")
    assert row.locator("td").first.inner_text().startswith("session")
    shade = row.evaluate("row => getComputedStyle(row).backgroundColor")
    assert shade != page.locator("#sessions tbody tr").first.evaluate(
        "row => getComputedStyle(row).backgroundColor"
    )


@SIZES
def test_labels_of_flags_are_whole_and_overlap_nothing(site: Path, page: Page) -> None:
    open_page(page, site / f"case/{LONG.id}.html")
    labels = page.locator(".drawn .flag text")
    changed, accepted = sorted(labels.all_text_contents(), key=lambda label: "masks" in label)
    assert changed.endswith(" %")
    assert accepted.startswith("c0ffee0 masks are checked")
    (one, other) = labels.evaluate_all(
        "all => all.map(text => { const {left, right, top, bottom} = text.getBoundingClientRect();"
        " const box = text.ownerSVGElement.getBoundingClientRect();"
        " return {left, right, top, bottom, inside: left >= box.left - 1 && right <= box.right + 1"
        " && top >= box.top - 1}; })"
    )
    assert one["inside"]
    assert other["inside"]
    assert (
        one["right"] <= other["left"]
        or other["right"] <= one["left"]
        or one["bottom"] <= other["top"] + 1
        or other["bottom"] <= one["top"] + 1
    )


@pytest.mark.parametrize("width", [400])
def test_on_a_phone_the_newest_outcomes_are_seen_first(site: Path, page: Page) -> None:
    open_page(page, site / f"case/{CASES[0][0].id}.html")
    right = page.locator("figure .chart a").evaluate_all(
        "all => Math.max(...all.map(a => a.getBoundingClientRect().right))"
    )
    assert 200 < right <= 400
