"""What every page has: markup that cannot be broken out of, and one file."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest

from pytest_dlperf.report.page import markup
from pytest_dlperf.report.page.chart import Axis, Chart, Layer, Mark, places
from pytest_dlperf.report.page.markup import Html, render_page
from pytest_dlperf.report.page.svg import Drawn, figure
from pytest_dlperf.report.page.table import Column, TableRow, cell, filters, number, table

NASTY = "</script><!--<script>alert(1)</script>\u2028\ud800\u202e\x1b[31m\"'&"


def drawn(description: str = "Runs", told: str = "") -> Drawn:
    layer = Layer(shape="dot", style="now", marks=(Mark(0, 1.0, hover=told),))
    chart = Chart(
        description=description,
        x=places(["now"], "session"),
        y=Axis(title="samples/s"),
        layers=(layer,),
        height=100,
    )
    return Drawn(chart=chart, caption="what is to be seen", numbers=Html("1"))


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("<b>&\"'", "&lt;b&gt;&amp;&quot;&#x27;"),
        ("\x1b[31m\x00", "␛[31m␀"),
        ("a\nb\tc", "a\nb\tc"),
        ("x\u202ey", "x\\u202ey"),
        ("\ud800", "\\ud800"),
        ("\U000e0001", "\\U000e0001"),
        ("吞吐 é", "吞吐 é"),
        (3.5, "3.5"),
    ],
)
def test_text_is_escaped_and_what_is_unseen_is_written(raw, shown):
    assert markup.text(raw) == shown


def test_names_keep_their_direction_and_language_to_themselves():
    assert markup.name("שלום") == "<bdi>שלום</bdi>"
    assert markup.name("模型") == '<bdi lang="zh-Hans">模型</bdi>'
    assert markup.name("") == ""
    assert markup.name("テスト用") == "<bdi>テスト用</bdi>"


def test_a_sentence_of_several_lines_is_that_many_paragraphs():
    assert markup.paragraph("one\n\n<two>", kind="reason").splitlines() == [
        '<p class="reason" dir="auto">one</p>',
        '<p class="reason" dir="auto">&lt;two&gt;</p>',
    ]


def test_a_table_says_by_what_it_is_sorted_and_filtered():
    rows = [TableRow(cells=(cell("a"), number("--", None)), key="k", facets={"verdict": "error"})]
    columns = [Column(heading="case"), Column(heading="rate", kind="number")]
    made = table("Cases", columns, rows, key="cases", sortable=True)
    assert '<tr data-key="k" data-verdict="error"><th scope="row" data-sort="a">a</th>' in made
    assert "<td class=n>--</td>" in made
    assert made.count("aria-sort") == 2
    assert 'data-filters="cases"' in filters("cases", noun="cases", facets={})
    assert "aria-sort" not in table("Plain", columns, rows)


def test_a_page_lets_only_its_own_script_run_and_loads_nothing():
    body = figure("a", "Runs", drawn())
    page = render_page(title="Runs", body=body)
    assert '<figure data-chart="a"><h3>Runs</h3>' in page
    policy = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)[0]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"'sha256-{digest}'" in policy
    assert not re.search(r"(src|href)\s*=\s*[\"']?(https?:)?//", page)


def test_what_charts_say_is_no_markup():
    body = figure(NASTY, NASTY, drawn(NASTY, NASTY))
    page = render_page(title=NASTY, body=body)
    assert "alert(1)</script>" not in page
    assert page.count("<svg") == 1
    page.encode()  # a lone surrogate would be no UTF-8


def test_a_page_is_little_more_than_what_is_in_it():
    page = render_page(title="None", body=Html("<p>nothing</p>"))
    assert len(page.encode()) < 20_000


def test_a_chart_that_was_not_made_has_no_place():
    assert figure("a", "Runs", None) == ""
