"""The session's page in a real browser: charts, tables, keyboard, phone, dark, hostile text."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from pytest_dlperf.core.verdict import Verdict
from tests.browser.conftest import DESKTOP, PHONE
from tests.helpers.page_outcomes import case, environment, judged, unmeasured

REGRESSED = "tsm-torch-amp-bs16-1n8g"
NASTY = "</details><img src=x onerror=alert(1)><script>alert(2)</script>\u202eאבג 训练"


def shown_cases(page) -> list[str]:
    return page.locator("#cases tbody tr:not([hidden]) th").all_inner_texts()


#: With scripts, and as a content policy, an archive or a printer shows the page.
SCRIPTS = pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no-scripts"])


@SCRIPTS
def test_every_chart_is_there_and_nothing_is_fetched(show, every_verdict, scripts):
    """Once, and what is asked of a page whose charts are all drawn is looked at as well."""
    watched = show(every_verdict, java_script_enabled=scripts)
    page = watched.page
    assert watched.overflow <= 0
    watched.open_all()
    assert watched.overflow <= 0
    figures = page.locator("figure[data-chart]").count()
    assert figures > 35
    assert page.locator("figure .chart > svg:visible").count() == figures
    # Marks, not frames alone
    empty = page.evaluate(
        """() => [...document.querySelectorAll("figure")].filter(figure =>
             ![...figure.querySelectorAll("circle, rect, .rule path, .line")].some(mark => {
               const {width, height} = mark.getBoundingClientRect();
               const {fill, stroke} = getComputedStyle(mark);
               return width + height > 2 && (fill !== "none" || stroke !== "none");
             })).map(figure => figure.dataset.chart)"""
    )
    assert empty == []
    assert_everything_has_a_name(page)
    watched.check()


@SCRIPTS
def test_a_chart_has_the_marks_of_its_data(show, scripts):
    outcome = judged(case("tsm", "1n1g"), -0.05, Verdict.REGRESSED, stalls=(71, 108))
    watched = show([outcome], java_script_enabled=scripts)
    watched.open_all()
    runs = watched.page.locator('figure[data-chart="runs-0"]')
    # 30 stored runs and 5 of now; 6 medians and one
    assert runs.locator(".dot circle:visible").count() == 35
    assert runs.locator(".dash path").count() == 7
    trace = watched.page.locator('figure[data-chart="trace-0"]')
    assert trace.locator(".arrow path:visible").count() == 2
    label = runs.locator(".chart > svg").get_attribute("aria-label")
    assert label == "Runs of tsm-torch-amp-bs16-1n1g, in samples/s"
    watched.check()


@SCRIPTS
def test_the_figures_of_a_chart_are_a_table(show, scripts):
    watched = show([judged(case("tsm", "1n1g"))], java_script_enabled=scripts)
    figure = watched.page.locator('figure[data-chart="runs-0"]')
    figure.locator("summary").click()
    rows = figure.locator("table tbody tr")
    rows.first.wait_for()
    assert rows.count() == 7
    assert rows.last.locator("th").inner_text() == "now"
    watched.check()


def test_tables_sort_by_mouse(show, every_verdict):
    watched = show(every_verdict)
    page = watched.page
    heading = page.locator("#cases thead th", has_text="change")
    heading.locator("button").click()
    assert heading.get_attribute("aria-sort") == "ascending"
    assert shown_cases(page)[0] == REGRESSED
    # What has no change is last, whichever way it is sorted
    heading.locator("button").click()
    assert heading.get_attribute("aria-sort") == "descending"
    cases = shown_cases(page)
    assert cases[0] == "resnet50-torch-amp-bs128-1n1g"
    assert cases[-1].startswith(("arcface", "deeplabv3p"))
    assert page.locator("#cases th[aria-sort=descending]").count() == 1
    watched.check()


def test_tables_sort_and_filter_by_keyboard_alone(show, every_verdict):
    watched = show(every_verdict)
    page = watched.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.type") == "search":
            break
    page.keyboard.type("tsm 1n")
    assert len(shown_cases(page)) == 4
    page.keyboard.press("Tab")
    page.keyboard.press("Space")  # the first verdict: error
    assert shown_cases(page) == []
    page.keyboard.press("Space")
    assert len(shown_cases(page)) == 4
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "rate":
            break
    width = page.evaluate("getComputedStyle(document.activeElement).outlineWidth")
    assert width == "2px"
    page.keyboard.press("Enter")
    assert [one[-4:] for one in shown_cases(page)] == ["1n1g", "1n2g", "1n4g", "1n8g"]
    watched.check()


def test_filters_hide_rows_and_their_sections(show, every_verdict):
    watched = show(every_verdict)
    page = watched.page
    output = page.locator("form.filters output")
    assert output.inner_text() == "12 of 12 cases"
    page.locator("form.filters button", has_text="regressed").click()
    assert len(shown_cases(page)) == 2
    assert output.inner_text() == "2 of 12 cases"
    assert page.locator("details.case:visible").count() == 2
    page.locator("form.filters button", has_text="error").click()
    assert len(shown_cases(page)) == 3
    page.locator("form.filters input").fill("resnet50")
    assert shown_cases(page) == ["resnet50-torch-amp-bs128-1n4g"]
    watched.check()


@SCRIPTS
def test_a_link_opens_its_case(show, every_verdict, scripts):
    watched = show(every_verdict, java_script_enabled=scripts)
    page = watched.page
    page.locator("#cases a", has_text=REGRESSED).click()
    opened = page.locator("details.case[open]")
    opened.wait_for()
    assert opened.count() == 1
    assert REGRESSED in opened.locator("summary").first.inner_text()
    opened.locator("figure svg").first.wait_for()
    watched.check()


# Colours have no width: the desktop's in light is looked at where every chart is drawn.
@pytest.mark.parametrize(
    ("size", "scheme"),
    [
        pytest.param(PHONE, "dark", id="phone-dark"),
        pytest.param(PHONE, "light", id="phone-light", marks=pytest.mark.nightly),
        pytest.param(DESKTOP, "dark", id="desktop-dark", marks=pytest.mark.nightly),
    ],
)
def test_nothing_is_wider_than_the_window(show, every_verdict, size, scheme):
    watched = show(every_verdict, size, scheme)
    assert watched.overflow <= 0
    watched.open_all()
    assert watched.overflow <= 0
    watched.check()


@SCRIPTS
def test_charts_follow_the_readers_colours(show, scripts):
    watched = show([judged(case("tsm", "1n1g"))], scheme="light", java_script_enabled=scripts)
    watched.open_all()
    page = watched.page
    colours = """() => [getComputedStyle(document.body).backgroundColor,
        getComputedStyle(document.querySelector("[data-chart=runs-0] .dot.now circle")).fill]"""
    assert page.evaluate(colours) == ["rgb(255, 255, 255)", "rgb(11, 92, 173)"]
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(colours) == ["rgb(15, 19, 24)", "rgb(124, 184, 245)"]
    watched.check()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast(show, every_verdict, scheme):
    """4.5 : 1, as WCAG 2 asks of text, on the page and on its panels."""
    page = show(every_verdict, scheme=scheme).page
    names = ["text", "quiet", "link", "good", "better", "bad", "broken", "open"]
    colours = page.evaluate(
        """names => {
             const style = getComputedStyle(document.documentElement);
             const of = name => style.getPropertyValue("--" + name).trim();
             return Object.fromEntries(names.map(name => [name, of(name)]));
        }""",
        [*names, "page", "panel", "band"],
    )
    for ground in ("page", "panel", "band"):
        for name in names:
            assert contrast(colours[name], colours[ground]) >= 4.5, (name, ground)


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    parts = [int(part, 16) / 255 for part in re.findall("[0-9a-f]{2}", colour)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def assert_everything_has_a_name(page) -> None:
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("a, button, summary, input, [role=region]")]
             .filter(one => !(one.textContent.trim() || one.getAttribute("aria-label")
                              || one.closest("label")?.textContent.trim()))
             .map(one => one.outerHTML)"""
    )
    assert nameless == []
    again = page.evaluate(
        """() => { const ids = [...document.querySelectorAll("[id]")].map(one => one.id);
             return ids.length - new Set(ids).size }"""
    )
    assert again == 0
    assert page.locator("h1").count() == 1


@SCRIPTS
def test_hostile_text_is_shown_and_does_nothing(show, scripts):
    hostile = replace(environment(image=NASTY), node=NASTY, machine_class=NASTY)
    outcomes = [
        replace(judged(case("tsm", "1n8g"), now=hostile), node_id=NASTY, commit=NASTY),
        unmeasured(case("tsm", "1n4g"), Verdict.ERROR, f"{NASTY}\n    {NASTY}\x1b[2J"),
    ]
    watched = show(outcomes, java_script_enabled=scripts)
    watched.open_all()
    page = watched.page
    assert page.locator("img").count() == 0
    assert page.locator("details.case").count() == 2
    assert page.locator("pre").last.inner_text().endswith("训练␛[2J")
    watched.check()


def test_a_page_without_javascript_says_what_needs_it(show, every_verdict):
    watched = show(every_verdict, java_script_enabled=False)
    page = watched.page
    assert "Sorting and filters need JavaScript" in page.locator("noscript").inner_text()
    # What would do nothing is not offered
    assert not page.locator("form.filters").is_visible()
    arrow = "getComputedStyle(document.querySelector('#cases th button'), '::after').display"
    assert page.evaluate(arrow) == "none"
    assert page.locator("#cases tbody tr").count() == 12
    watched.check()


#: In pixels of CSS, between margins of 12 mm.
A4 = (703, 1032)


@SCRIPTS
def test_paper_cuts_nothing_and_is_not_many_sheets(show, every_verdict, scripts):
    """What scrolls on a screen does not on paper."""
    watched = show(every_verdict, A4, java_script_enabled=scripts)
    watched.page.emulate_media(media="print")
    watched.open_all()
    cut = watched.page.evaluate(
        """() => [...document.querySelectorAll("main *")].filter(one => {
             const {width, right} = one.getBoundingClientRect();
             return width && right > innerWidth + 1;
           }).map(one => `${one.tagName} ${one.className} ${one.textContent.slice(0, 40)}`)"""
    )
    assert cut == []
    one = show(
        [judged(case("tsm", "1n1g"), -0.05, Verdict.REGRESSED)], java_script_enabled=scripts
    )
    sheets = re.findall(rb"/Count (\d+)", one.page.pdf(format="A4"))
    assert max(map(int, sheets)) <= 4


@pytest.mark.parametrize("what", ["h2", "h3", "details.case > summary"])
def test_on_paper_a_heading_stays_with_what_follows(show, every_verdict, what):
    page = show(every_verdict, A4).page
    page.emulate_media(media="print")
    kept = f"getComputedStyle(document.querySelector({what!r})).breakAfter"
    assert page.evaluate(kept) == "avoid"


@pytest.mark.nightly  # a page of 10 MB takes as long as all other tests
def test_ten_thousand_cases_can_be_used(show):
    # Rows are what is many: a few cases, under very many batch sizes.
    some = [judged(case(suite, "1n1g")) for suite in ("tsm", "resnet50", "arcface", "deeplabv3p")]
    outcomes = [
        replace(one, case=replace(one.case, batch_size_per_device=index + 1))
        for index in range(2500)
        for one in some
    ]
    watched = show(outcomes)
    page = watched.page
    assert page.locator("#cases tbody tr").count() == 10_000
    page.locator("form.filters input").fill("bs17-1n1g")
    assert len(shown_cases(page)) == 4
    page.locator("#cases thead th", has_text="rate").locator("button").click()
    assert [one.partition("-")[0] for one in shown_cases(page)] == [
        *("deeplabv3p", "tsm", "resnet50", "arcface"),
    ]
    assert "The 500 cases that need attention most" in page.locator("main").inner_text()
    watched.check()


@pytest.mark.nightly  # pictures are for people
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_pictures(show, every_verdict, screenshots, size, scheme):
    watched = show(every_verdict, size, scheme)
    page = watched.page
    name = f"session-{'desktop' if size == DESKTOP else 'phone'}-{scheme}"
    page.screenshot(path=screenshots / f"{name}.png")
    page.locator("#cases a", has_text=REGRESSED).click()
    page.locator("details.case[open]").wait_for()
    page.evaluate("document.querySelector('details.case[open]').scrollIntoView()")
    page.screenshot(path=screenshots / f"{name}-case.png")
    for picture in (f"{name}.png", f"{name}-case.png"):
        assert (screenshots / picture).stat().st_size > 20_000  # an empty one has a few hundred
