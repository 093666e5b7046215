"""Charts as SVG: where marks are, which labels an axis has, and that labels do not overlap."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_dlperf.core.verdict import Verdict
from pytest_dlperf.report.page.chart import END, START, Axis, Chart, Layer, Mark, Tick, places
from pytest_dlperf.report.page.svg import draw, legend
from pytest_dlperf.report.page.verdicts import look_of


def chart(*marks: Mark, shape: str = "dot", **fields: object) -> Chart:
    made = Chart(
        description="d",
        x=Axis(title="x", low=0, high=10),
        y=Axis(title="y"),
        layers=(Layer(shape=shape, style="now", marks=marks),),
        height=100,
    )
    return replace(made, **fields)


def drawn(one: Chart) -> ElementTree.Element:
    return ElementTree.fromstring(draw(one))


def labels(one: Chart) -> list[str]:
    return [str(text.text) for text in drawn(one).iter("text")]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((0.0, 100.0), ["0", "20", "40", "60", "80", "100"]),
        ((61.2, 63.9), ["61", "62", "63", "64"]),
        ((0.0021, 0.0042), ["0.0020", "0.0025", "0.0030", "0.0035", "0.0040", "0.0045"]),
        ((-0.3, 0.6), ["-0.4", "-0.2", "0.0", "0.2", "0.4", "0.6"]),
        ((20_000.0, 1_200_000.0), ["0", "500k", "1000k", "1500k"]),
        ((5.0, 5.0), ["4.7", "4.8", "4.9", "5.0", "5.1", "5.2", "5.3"]),
    ],
)
def test_an_axis_has_round_numbers_around_its_marks(values, expected):
    found = labels(chart(*(Mark(i, value) for i, value in enumerate(values))))
    assert found[: len(expected)] == expected


def test_marks_are_where_the_axes_say():
    one = chart(Mark(0, 0.0), Mark(5, 50.0), Mark(10, 100.0), y=Axis(title="y", low=0, high=100))
    circles = list(drawn(one).iter("circle"))
    x, y = ([float(str(c.get(name))) for c in circles] for name in ("cx", "cy"))
    assert x[1] == pytest.approx((x[0] + x[2]) / 2, abs=0.1)
    assert (x[0] < x[2], y[0] - y[2]) == (True, 100)
    assert y[1] == pytest.approx((y[0] + y[2]) / 2, abs=0.1)


def test_a_logarithmic_axis_has_equal_steps_for_equal_factors():
    marks = [Mark(1, 10.0), Mark(2, 100.0), Mark(3, 1000.0)]
    one = chart(*marks, y=Axis(title="y", logarithmic=True))
    y = [float(str(c.get("cy"))) for c in drawn(one).iter("circle")]
    assert y[0] - y[1] == pytest.approx(y[1] - y[2], abs=0.1)
    assert labels(one)[:7] == ["10", "20", "50", "100", "200", "500", "1000"]


def test_what_is_beyond_an_axis_is_at_its_edge_and_a_line_is_cut_off():
    axis = Axis(title="y", low=0, high=10)
    dot, edge = drawn(chart(Mark(0, 1e9), Mark(1, 10.0), y=axis)).iter("circle")
    assert dot.get("cy") == edge.get("cy")
    line = drawn(chart(Mark(0, 1e3), Mark(1, 10.0), shape="line", y=axis))
    clipped = next(line.iter("svg")).find("svg")
    assert clipped is not None
    assert clipped.get("height") == "100"
    begin = re.match(r"M[\d.]+ (-[\d.]+)l", str(next(clipped.iter("path")).get("d")))
    assert begin is not None


def test_bars_begin_at_zero_and_areas_reach_the_edges():
    up, down = drawn(chart(Mark(1, 4.0), Mark(2, -2.0), shape="bar")).iter("rect")
    assert float(str(up.get("y"))) + float(str(up.get("height"))) == float(str(down.get("y")))
    (area,) = drawn(chart(Mark(START, 1.0, x2=END, y2=2.0), shape="area")).iter("rect")
    whole = 520 - 10 - float(str(area.get("x")))
    assert float(str(area.get("width"))) == pytest.approx(whole, abs=0.2)


def test_labels_that_would_overlap_are_left_out_and_wide_ones_count_twice():
    names = [f"节点-{i:02}" for i in range(60)]
    one = chart(Mark(0, 1.0), x=places(names, "node"))
    texts = [t for t in drawn(one).iter("text") if str(t.text).startswith("节点")]
    at = [float(str(t.get("x"))) for t in texts]
    assert texts[0].text == "节点-00"
    assert len(at) > 4
    assert min(b - a for a, b in itertools.pairwise(at)) > 7 * 7.0


def test_the_legend_has_each_name_once_beside_a_mark_of_its_shape():
    shapes = ("dot", "ring", "fall", "rise", "diamond", "cross", "bar", "area", "rule", "line",
              "dash", "arrow", "flag", "speck", "whisker")  # fmt: skip
    layers = tuple(
        Layer(shape=shape, style="now", marks=(Mark(0, 1.0),), name=f"<{shape}>")
        for shape in (*shapes, *shapes)
    )
    unnamed = Layer(shape="dot", style="good", marks=(Mark(0, 1.0),))
    entries = ElementTree.fromstring(legend(chart(layers=(*layers, unnamed)))).findall("li")
    assert ["".join(entry.itertext()) for entry in entries] == [f"<{shape}>" for shape in shapes]
    for entry, shape in zip(entries, shapes, strict=True):
        assert any(f"{shape} now" == part.get("class") for part in entry.iter())
        assert any(part.tag in {"path", "rect", "circle"} for part in entry.iter())
    assert legend(chart(Mark(0, 1.0))) == ""


def test_kinds_of_verdicts_differ_in_shape_sign_and_colour():
    looks = {look_of(verdict) for verdict in (*Verdict, "of a later version")}
    assert len(looks) == 5
    assert len({look.shape for look in looks}) == len({look.sign for look in looks}) == 5
    marks = {draw(chart(Mark(1, 1.0), shape=look.shape)).rpartition('now">')[2] for look in looks}
    assert len(marks) == 5
    assert look_of("passed").shape == "dot"


def test_very_many_marks_are_one_path():
    specks = drawn(chart(Mark(0, 1.0), Mark(1, 2.0), Mark(2, 3.0), shape="speck"))
    (path,) = (p for p in specks.iter("path") if p.get("class") == "speck now")
    assert len(re.findall(r"M[\d.]+ [\d.]+h0", str(path.get("d")))) == 3
    whiskers = drawn(chart(Mark(0, 1.0, y2=2.0), Mark(1, 2.0, y2=3.0), shape="whisker"))
    (path,) = (p for p in whiskers.iter("path") if p.get("class") == "whisker now")
    ends = re.findall(r"M([\d.]+) ([\d.]+)V([\d.]+)", str(path.get("d")))
    assert [float(low) > float(high) for _, low, high in ends] == [True, True]


def test_a_mark_with_a_link_leads_there_and_takes_no_stop_of_the_keyboard():
    one = drawn(chart(Mark(0, 1.0, hover="h", link='../s.html#"&')))
    (link,) = one.iter("a")
    assert (link.get("href"), link.get("tabindex")) == ('../s.html#"&', "-1")
    assert [child.tag for child in link] == ["circle"]


def flag_boxes(one: ElementTree.Element) -> list[tuple[float, float, float, float]]:
    """Return line, begin and end of each label of a flag, and where its pole is."""
    boxes = []
    for group in one.iter("g"):
        for label in group.findall("text") if group.get("class") == "flag now" else ():
            x, size = float(str(label.get("x"))), 7.0 * len(str(label.text))
            begin = x - size if label.get("text-anchor") == "end" else x
            pole = re.match(r"M([\d.]+) ", str(group.find("path").get("d")))
            boxes.append((float(str(label.get("y"))), begin, begin + size, float(pole[1])))
    return boxes


@pytest.mark.parametrize("step", [0.2, 0.5, 1.0, 2.0, 5.0])
def test_labels_of_flags_neither_overlap_nor_leave_the_chart(step):
    marks = [
        Mark(i * step, START, y2=END, hover="h", label=f"abc1234 label {i}")
        for i in range(int(10 / step) + 1)
    ]
    one = drawn(chart(*marks, shape="flag"))
    boxes = sorted(flag_boxes(one))
    assert boxes
    assert all(begin >= 0 and end <= 520 for _, begin, end, _ in boxes)
    assert all(
        line != next_line or end <= begin
        for (line, _, end, _), (next_line, begin, _, _) in itertools.pairwise(boxes)
    )
    assert min(line for line, _, _, _ in boxes) > 0
    # Nor does the pole of one go through the text of another: lines are counted from above
    assert not [
        (text, pole)
        for text in boxes
        for pole in boxes
        if text[1] < pole[3] < text[2] and pole[0] <= text[0]
    ]
    # What has no room for its label is a line that says it
    poles = [p for g in one.iter("g") if g.get("class") == "flag now" for p in g.iter("title")]
    assert len(poles) == len(marks)


def test_a_mark_says_what_it_was_given_and_nothing_else():
    first, second = drawn(chart(Mark(0, 1.0, hover="<b>&"), Mark(1, 2.0))).iter("circle")
    assert first.findtext("title") == "<b>&"
    assert second.find("title") is None


numbers = st.floats(min_value=-1e12, max_value=1e12, allow_subnormal=False)


@settings(deadline=None)
@given(st.lists(numbers, min_size=1, max_size=5), st.booleans())
def test_any_figures_make_a_chart_with_few_ticks(values, zero):
    one = chart(*(Mark(i, value) for i, value in enumerate(values)), y=Axis(title="y", zero=zero))
    made = drawn(one)
    top, bottom = 10, 110
    assert all(top <= float(str(c.get("cy"))) <= bottom for c in made.iter("circle"))
    assert "nan" not in draw(one)
    [of_y] = [g for g in made.iter("g") if g.get("text-anchor") == "end"]
    assert 1 <= len(of_y) <= 12


def test_an_axis_may_have_labels_of_its_own():
    one = chart(Mark(1, 1.0), x=Axis(title="devices", zero=True, ticks=(Tick(1, "one"),)))
    assert "one" in labels(one)


def test_a_line_of_one_point_is_a_path_that_browsers_take():
    path = next(drawn(chart(Mark(1, 1.0), shape="line")).iter("svg")).find("svg/path")
    assert path is not None
    assert re.fullmatch(r"M[\d.]+ [\d.]+", str(path.get("d")))


def test_a_line_goes_through_its_points():
    axis = Axis(title="y", low=0, high=100)
    one = chart(Mark(0, 0.0), Mark(5, 100.0), Mark(10, 99.5), shape="line", y=axis)
    path = re.findall(r'class="line now" d="(.*?)"', draw(one))[0]
    numbers_ = [float(n) for n in re.findall(r"-?(?:\d+\.?\d*|\.\d+)", path)]
    pairs = list(zip(numbers_[::2], numbers_[1::2], strict=True))
    across = [
        float(str(c.get("cx")))
        for c in drawn(replace(one, layers=(replace(one.layers[0], shape="dot"),))).iter("circle")
    ]
    assert pairs[0] == pytest.approx((across[0], 110.0), abs=0.1)
    assert pairs[1] == pytest.approx((across[1] - across[0], -100.0), abs=0.2)
    assert pairs[2] == pytest.approx((across[2] - across[1], 0.5), abs=0.2)
