"""The chart of a series: runs, interval, level, verdicts, accepted changes, links and words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

from pytest_dlperf.core.command_results import Acknowledged, Change, JudgedPoint, Point, Series
from pytest_dlperf.report.page.chart import END, START, Chart
from pytest_dlperf.report.page.series_chart import series_chart
from pytest_dlperf.report.page.series_table import series_table
from pytest_dlperf.report.page.shown_series import ShownSeries, shown_series
from pytest_dlperf.report.page.svg import Drawn, draw
from tests.helpers.hostile_text import HOSTILE


def point(number: int, verdict: str = "passed", **fields: Any) -> Point:
    values: dict[str, Any] = {
        "number": number, "time": f"2026-09-{number + 1:02}T02:00:00Z",
        "commit": f"{number:07x}{0:033x}", "dirty": False, "verdict": verdict,
        "throughput": 100.0, "change": None, "speedup": None,
        "peak_memory_bytes": None, "runs": 3, "mode": "gate", "left_out": "",
    }  # fmt: skip
    if fields.get("throughput", 1.0) is None:
        values["left_out"] = "not measured"
    return Point(**values | fields)


def series(*points: Point, **fields: Any) -> Series:
    values: dict[str, Any] = {
        "case_id": "c", "machine_class": "m", "node": "n", "unit": "samples", "conditions": {},
        "key": "k",
    }  # fmt: skip
    return Series(points=points, **values | fields)


def judged(number: int, **fields: Any) -> JudgedPoint:
    values: dict[str, Any] = {
        "reason": "it was so", "runs": (99.0, 100.0, 101.0), "level": 102.0, "tolerance": 0.05,
        "interval": (-0.03, -0.01),
    }  # fmt: skip
    return JudgedPoint(number=number, **values | fields)


def change(of: Series, place: int, share: float) -> Change:
    points = of.points
    return Change(
        case_id=of.case_id, machine_class=of.machine_class, node=of.node, unit=of.unit,
        before=100.0, after=100.0 * (1 + share), change=share, p=1e-6, time=points[place].time,
        number=points[place].number, last_before=points[place - 1], first_after=points[place],
        points_before=place, points_after=len(points) - place,
    )  # fmt: skip


def drawn(shown: ShownSeries, **options: Any) -> Drawn:
    made = series_chart(shown, **options)
    assert made is not None
    ElementTree.fromstring(draw(made.chart))
    return made


def names(chart: Chart) -> list[str]:
    return [layer.name for layer in chart.legend]


def test_runs_interval_and_level_of_each_outcome_are_drawn():
    whole = series(*(point(i) for i in range(4)))
    levels = {0: judged(0), 1: judged(1), 2: judged(2, level=90.0), 3: judged(3, level=None)}
    made = drawn(ShownSeries(series=whole, judged=levels))
    chart = made.chart
    assert [(mark.x, mark.y) for mark in chart.marks("baseline")][:4] == [
        (0, 99.0), (0, 100.0), (0, 101.0), (1, 99.0),
    ]  # fmt: skip
    assert len(chart.marks("baseline")) == 12
    first, *_, last = chart.marks("other")
    assert (first.x, first.y, first.y2) == (0, 102.0 * 0.97, 102.0 * 0.99)
    assert last.x == 2  # without a level there is no change that an interval could be of
    # Equal levels beside each other are one
    assert [(mark.x, mark.x2, mark.y) for mark in chart.marks("ideal")] == [
        (-0.5, 1.5, 102.0), (1.5, 2.5, 90.0),
    ]  # fmt: skip
    assert [(mark.y, mark.y2) for mark in chart.marks("band")] == [
        (102.0 * 0.95, 102.0), (90.0 * 0.95, 90.0),
    ]  # fmt: skip
    assert "1 outcome had no stored level." in made.caption
    assert {"tolerated", "stored level", "90 % interval", "run", "passed"} == set(names(chart))


def test_a_level_without_a_tolerance_has_no_band():
    whole = series(point(0), point(1))
    chart = drawn(ShownSeries(series=whole, judged={0: judged(0, tolerance=None)})).chart
    assert len(chart.marks("ideal")) == 1
    assert chart.marks("band") == ()


def test_verdicts_differ_in_shape_and_the_urgent_are_on_top():
    verdicts = ("error", "regressed", "inconclusive", "passed", "improved", "of a later version")
    chart = drawn(ShownSeries(series=series(*map(point, range(6), verdicts)))).chart
    shapes = {layer.name: layer.shape for layer in chart.layers}
    assert shapes == {
        "improved": "rise", "passed": "dot", "inconclusive": "diamond",
        "of a later version": "diamond", "regressed": "fall", "error": "cross",
    }  # fmt: skip
    assert [layer.name for layer in chart.layers][-2:] == ["regressed", "error"]


def test_what_does_not_count_is_hollow_and_what_was_not_measured_at_the_edge():
    points = (
        point(0),
        point(1, "error", throughput=None),
        point(2, "regressed", left_out="injected", throughput=1.0),
    )
    made = drawn(ShownSeries(series=series(*points), judged={2: judged(2)}))
    (failed,) = made.chart.marks("broken")
    assert (failed.x, failed.y) == (1, START)
    assert "error: nothing was measured" in failed.hover
    (hollow,) = made.chart.marks("bad aside")
    assert hollow.x == 2
    assert made.chart.marks("baseline") == ()  # nor have they runs
    assert "nothing was measured" in made.caption
    assert "Hollow" in made.caption
    only_failed = series(point(1, "error", throughput=None))
    assert series_chart(ShownSeries(series=only_failed)) is None


def test_changes_and_accepted_levels_are_marked_with_commit_and_reason():
    whole = series(*(point(i) for i in range(9)))
    level = Acknowledged(
        case_id="c", machine_class="m", time=whole.points[5].time, commit="f" * 40,
        reason="masks are checked now, and this sentence is longer than a label",
    )  # fmt: skip
    early = replace(level, time="2026-01-01T00:00:00Z")
    late = replace(level, time="2027-01-01T00:00:00Z", reason="r", commit="")
    changes = (change(whole, 3, -0.1), change(whole, 6, 0.2))
    shown = ShownSeries(series=whole, changes=changes, acknowledged=(early, level, late))
    chart = drawn(shown).chart
    (slower,), (faster,) = chart.marks("bad"), chart.marks("better")
    assert (slower.x, slower.y, slower.y2, slower.label) == (2.5, START, END, "0000003 -10.0 %")
    assert "after commit 0000002 up to 0000003 (2026-09-03 02:00:00 to " in slower.hover
    assert (faster.x, faster.label) == (5.5, "0000006 +20.0 %")
    accepted, last = chart.marks("accepted")
    assert accepted.x == 4.5
    assert accepted.label.startswith("fffffff masks are checked")
    assert accepted.label.endswith("…")
    assert accepted.hover.endswith(level.reason)
    assert (last.x, last.label) == (8.5, "r")
    assert {"slower level", "faster level", "level accepted", "mean between changes"} <= set(
        names(chart)
    )


def test_a_mark_says_in_words_what_happened_and_leads_to_its_session():
    reason = "7 % slower than before\nlog line"
    slow = point(1, "regressed", throughput=93.0, software_changes=("torch: 1 -> 2",))
    shown = ShownSeries(
        series=series(point(0), slow),
        judged={0: judged(0, level=100.0), 1: judged(1, level=100.0, reason=reason)},
        links={0: "../sessions.html#s0", 1: "../sessions.html#s1"},
    )
    made = drawn(shown)
    (good,), (bad,) = made.chart.marks("good"), made.chart.marks("bad")
    assert good.hover.splitlines() == [
        "2026-09-01 02:00:00 UTC, commit 0000000",
        "passed: 100.0 samples/s, 0.0 % above the stored level of 100.0",
    ]
    assert bad.hover.splitlines()[1:] == [
        "regressed: 93.00 samples/s, 7.0 % below the stored level of 100.0",
        "7 % slower than before",
        "torch: 1 -> 2",
    ]
    links = [a.get("href") for a in ElementTree.fromstring(draw(made.chart)).iter("a")]
    assert sorted(filter(None, links)) == ["../sessions.html#s0", "../sessions.html#s1"]
    # So has the table, for those who cannot point
    assert all(f'<a href="{link}">' in made.numbers for link in links)


def test_an_axis_shows_the_tolerated_level_and_outcomes_beyond_it():
    shown = ShownSeries(
        series=series(point(0, throughput=80.0), point(1, throughput=500.0, left_out="disturbed")),
        judged={0: judged(0)},
    )
    axis = drawn(shown).chart.y
    assert axis.low is not None
    assert axis.high is not None
    assert axis.low < 80.0
    assert 102.0 < axis.high < 200.0


def test_of_more_outcomes_the_newest_are_drawn_and_it_is_said():
    whole = series(*(point(i) for i in range(10)))
    made = drawn(ShownSeries(series=whole, judged={9: judged(9)}), points_max=4)
    assert [mark.x for mark in made.chart.marks("good")] == [0, 1, 2, 3]
    assert "4 outcomes, the newest of 10" in made.caption
    assert "those of the newest 1." in made.caption


def test_whatever_comes_from_outside_is_text():
    whole = series(point(0, commit=HOSTILE), point(1, HOSTILE, commit=HOSTILE), unit=HOSTILE)
    level = Acknowledged(
        case_id="c", machine_class="m", time=whole.points[1].time, commit=HOSTILE, reason=HOSTILE
    )
    made = drawn(
        ShownSeries(
            series=whole,
            acknowledged=(level,),
            judged={1: judged(1, reason=HOSTILE)},
            links={1: HOSTILE},
        )
    )
    assert HOSTILE not in draw(made.chart)


def keys(*some: Series, **options: Any) -> list[str]:
    return [shown.series.key for shown in shown_series(some, (), **options)]


def test_those_that_someone_must_look_at_come_first():
    slower = series(point(0), point(1), key="slower", case_id="e")
    taken = series(point(10), point(11), key="accepted", case_id="a", machine_class="m2")
    some = [
        series(point(20), key="passed", case_id="b"),
        series(point(21, "improved"), key="improved", case_id="c"),
        series(point(22, "unsteady"), key="open", case_id="d"),
        slower,
        taken,
        series(point(23, "regressed"), key="regressed", case_id="z"),
        series(point(24, "error"), key="error", case_id="z"),
    ]
    level = Acknowledged(case_id="a", machine_class="m2", time=taken.points[1].time, reason="so")
    changes = (change(slower, 1, -0.1), change(taken, 1, -0.1))
    shown = shown_series(some, changes, acknowledged=[level])
    assert [entry.series.key for entry in shown] == [
        "error", "regressed", "open", "slower", "accepted", "passed", "improved",
    ]  # fmt: skip
    page = series_table(shown, lambda entry: "")
    assert page.index("not accepted") < page.index("accepted: so")


def test_outcomes_that_were_not_measured_are_among_those_of_the_series():
    measured = series(point(0), point(2), key="measured")
    failed = series(point(1, "error", throughput=None), key="failed")
    (shown,) = shown_series([failed, measured], ())
    assert [entry.number for entry in shown.series.points] == [0, 1, 2]
    assert (shown.anchor, shown.unmeasured_keys) == ("series-measured", ("failed",))
    assert shown.newest.verdict == "passed"
    # Where no rank said a place, the place is that of the last measurement
    nowhere = replace(failed, machine_class="", node="")
    elsewhere = series(point(3), key="elsewhere", machine_class="m2")
    shown_keys = {
        entry.series.key: entry.unmeasured_keys
        for entry in shown_series([nowhere, measured, elsewhere], ())
    }
    assert shown_keys == {"measured": (), "elsewhere": ("failed",)}


def test_of_another_place_or_case_they_stay_by_themselves():
    measured = series(point(0), key="measured")
    failed = series(point(1, "error", throughput=None), key="failed")
    for other in (
        replace(failed, machine_class="m2"),
        replace(failed, node="n2"),
        replace(failed, case_id="d"),
    ):
        assert keys(measured, other) == ["failed", "measured"]
    assert keys(replace(measured, node="n,n2"), failed) == ["measured"]
    assert keys(failed) == ["failed"]
