"""Why a case got slower, on its page in a real browser: the bars, the tables, the icicle."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_dlperf.core.verdict import Verdict
from tests.browser.conftest import DESKTOP, PHONE
from tests.helpers.explanations import FOUND
from tests.helpers.page_outcomes import case, judged

if TYPE_CHECKING:
    from playwright.sync_api import Locator

SLOWER = replace(judged(case("tsm", "1n1g"), -0.4, Verdict.REGRESSED), explanation=FOUND)
#: As a content policy, an archive or a printer shows the page, too.
SCRIPTS = pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no-scripts"])


def boxes(rectangles: Locator) -> list[dict[str, Any]]:
    """Return where rectangles are, with their titles and what they are painted with."""
    found: list[dict[str, Any]] = rectangles.evaluate_all(
        """all => all.map(one => {
             const {left, right, top, bottom} = one.getBoundingClientRect();
             const title = (one.querySelector("title") || one.parentNode.querySelector("title"));
             return {left, right, top, bottom, title: title.textContent,
                     fill: getComputedStyle(one).fill};
           })"""
    )
    return found


@SCRIPTS
def test_bars_are_as_wide_as_the_parts_and_follow_each_other(show, scripts):
    watched = show([SLOWER], java_script_enabled=scripts)
    watched.open_all()
    bars = boxes(watched.page.locator("svg.parts > rect"))
    assert len(bars) == 2 * len(FOUND.parts)
    before, after = bars[: len(FOUND.parts)], bars[len(FOUND.parts) :]
    assert {one["top"] for one in before} != {one["top"] for one in after}
    for row, ms in (
        (before, [part.before_ms for part in FOUND.parts]),
        (after, [part.after_ms for part in FOUND.parts]),
    ):
        scale = (row[-1]["right"] - row[0]["left"]) / sum(ms)
        widths = [one["right"] - one["left"] for one in row]
        assert widths == pytest.approx([scale * one for one in ms], abs=0.5)
        lefts = [one["left"] for one in row[1:]]
        assert lefts == pytest.approx([one["right"] for one in row[:-1]], abs=0.5)
    # One colour a part, alike in both bars
    assert [one["fill"] for one in before] == [one["fill"] for one in after]
    assert len({one["fill"] for one in before}) == len(FOUND.parts)
    assert before[0]["title"] == "exposed communication: 2.00 ms"
    watched.check()


@SCRIPTS
def test_tables_have_what_was_found_and_names_are_text(show, scripts):
    watched = show([SLOWER], java_script_enabled=scripts)
    watched.open_all()
    opened = watched.page.locator("details.case[open]")
    sentence = f"{FOUND.sentence[0].upper()}{FOUND.sentence[1:]}."
    assert opened.get_by_text(sentence, exact=True).is_visible()

    def row(name: str) -> list[str]:
        line = opened.locator("table tr", has=watched.page.get_by_text(name, exact=True))
        assert line.count() == 1
        assert line.is_visible()
        return line.locator("th, td").all_inner_texts()

    assert row("exposed communication") == [
        "exposed communication", "2.00", "35.00", "+33.00", "82.5 %",
    ]  # fmt: skip
    assert row("compute *")[1:] == ["50.00", "56.00", "+6.00", "15.0 %"]
    assert row("added: <i>head: aten::fill_")[1:] == ["0.00", "6.00", "+6.00", "0 to 3"]
    assert row("train.py(7): step: aten::cat")[1:] == ["0 MiB", "1024 MiB", "0 to 3"]
    assert row("step > <lambda>")[1:] == ["1.00", "9.00"]
    assert opened.get_by_text("kernels and copies a step: 40 to 43", exact=True).is_visible()
    assert opened.get_by_text("/w/explain1/trace.json.gz", exact=True).is_visible()
    assert opened.locator("i").count() == 0
    watched.check()


@SCRIPTS
def test_each_module_of_the_icicle_is_below_the_one_that_it_is_in(show, scripts):
    watched = show([SLOWER], java_script_enabled=scripts)
    watched.open_all()
    drawn = boxes(watched.page.locator("svg.icicle rect"))
    names = [one["title"].rpartition(": ")[0] for one in drawn]
    assert names == [
        "operators", "forward", "body", "body.0", "body.<1>", "backward", "body", "body.<1>",
        "optimizer",
    ]  # fmt: skip
    outer = {1: 0, 2: 1, 3: 2, 4: 2, 5: 0, 6: 5, 7: 6, 8: 0}
    for inner, around in outer.items():
        box, parent = drawn[inner], drawn[around]
        assert box["top"] >= parent["bottom"] - 0.1
        assert parent["left"] - 0.5 <= box["left"] < box["right"] <= parent["right"] + 0.5
    widths = [one["right"] - one["left"] for one in drawn]
    assert widths[4] / widths[3] == pytest.approx(30 / 20, rel=0.02)
    same, slower, faster = (drawn[index]["fill"] for index in (3, 4, 7))
    assert len({same, slower, faster}) == 3
    assert slower == "rgb(213, 94, 0)"
    assert drawn[4]["title"] == "body.<1>: 20.00 ms to 30.00 ms (+10.00 ms)"
    watched.check()


@pytest.mark.parametrize(
    ("size", "scheme"), [(DESKTOP, "light"), (DESKTOP, "dark"), (PHONE, "light")]
)
def test_it_fits_its_window_and_can_be_read(show, screenshots, size, scheme):
    watched = show([SLOWER], size, scheme)
    watched.open_all()
    page = watched.page
    assert watched.overflow <= 0
    labels = page.locator("svg.parts text, svg.icicle text").count()
    assert labels > 8
    for name in ("svg.parts", "svg.icicle"):
        drawing = page.locator(name)
        assert drawing.get_attribute("aria-label")
        box = drawing.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= size[0]
        assert box["height"] > 20
    # The words beside the bars are of the page's own colour, also where it is dark
    ink, paper = page.evaluate(
        """() => [getComputedStyle(document.querySelector("svg.parts text")).fill,
                  getComputedStyle(document.body).backgroundColor]"""
    )
    assert ink != paper
    page.locator("svg.parts").scroll_into_view_if_needed()
    page.screenshot(path=screenshots / f"explanation-{size[0]}-{scheme}.png")
    watched.check()
