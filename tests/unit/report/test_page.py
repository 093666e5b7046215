"""What every page has: markup that cannot be broken out of, one file, the vendored library."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from importlib import resources

import pytest

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.report.page import markup, page_shell
from pytest_dlperf.report.page.figure import ChartBook, Drawn
from pytest_dlperf.report.page.markup import Html
from pytest_dlperf.report.page.page_shell import render_page
from pytest_dlperf.report.page.table import Column, TableRow, cell, filters, number, table

VENDOR = resources.files("pytest_dlperf.report.page") / "vendor"
NASTY = "</script><!--<script>alert(1)</script>\u2028\ud800\u202e\x1b[31m\"'&"


def drawn(**spec: str) -> Drawn:
    return Drawn(spec={"mark": "bar", **spec}, caption="what is to be seen", numbers=Html("1"))


def blocks(page: str, kind: str) -> list[str]:
    found = re.findall(rf'data-block="{kind}">([^<]*)</script>', page)
    return [gzip.decompress(base64.b64decode(one)).decode() for one in found]


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


def test_a_page_lets_only_its_own_scripts_run_and_loads_nothing():
    book = ChartBook()
    body = book.place("a", "Runs", drawn())
    page = render_page(title="Runs", body=body, charts=book.charts)
    assert '<figure data-chart="a"><h3>Runs</h3>' in page
    policy = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)[0]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy
    script = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    library = blocks(page, "library")
    assert len(script) == 1
    assert len(library) == 3
    for one in [*script, *library]:
        digest = base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
        assert "sourceMappingURL" not in one
    assert not re.search(r"(src|href)\s*=\s*[\"']?(https?:)?//", page)


def test_charts_are_data_that_can_be_no_markup():
    charts = {NASTY: drawn(description=NASTY)}
    page = render_page(title=NASTY, body=Html(""), charts=charts)
    packed = json.loads(blocks(page, "charts")[0])
    assert packed[NASTY]["spec"] == {"mark": "bar", "description": NASTY}
    assert "alert(1)</script>" not in page
    page.encode()  # a lone surrogate would be no UTF-8


def test_a_page_without_charts_carries_no_library():
    page = render_page(title="None", body=Html("<p>nothing</p>"), charts={})
    assert "data-block" not in page.partition("<script>")[0]
    assert len(page) < 40_000


def test_the_same_page_is_made_twice():
    first, second = (
        render_page(title="T", body=Html(""), charts={"a": drawn()}) for _ in range(2)
    )
    assert first == second


def test_vendored_files_are_those_of_the_packages():
    listed = json.loads((VENDOR / "packages.json").read_text(encoding="utf-8"))
    assert {one["file"].rpartition("/")[2] for one in listed} == set(page_shell._LIBRARY)
    for one in listed:
        data = (VENDOR / one["file"].rpartition("/")[2]).read_bytes()
        digest = base64.b64encode(hashlib.sha512(data).digest()).decode()
        assert one["file_integrity"] == f"sha512-{digest}", one["package"]
        licence = (VENDOR / f"{one['package']}.LICENSE").read_text(encoding="utf-8")
        assert "University of Washington Interactive Data Lab" in licence


def test_a_missing_library_is_said_with_its_path(monkeypatch):
    monkeypatch.setattr(page_shell, "_LIBRARY", ("gone.min.js",))
    with pytest.raises(UsageError, match=r"gone\.min\.js: No such file.*install it again"):
        render_page(title="T", body=Html(""), charts={"a": drawn()})


def test_another_version_of_the_interpreter_is_said():
    with pytest.raises(UsageError, match="this version is unknown"):
        page_shell._as_script("export default 1;")
