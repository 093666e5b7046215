"""Text, Markdown and HTML of one document: the same figures, nothing that breaks out."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from pytest_dlperf.core.verdict import Verdict
from pytest_dlperf.report import markdown
from pytest_dlperf.report.comparison_document import compare, comparison_document
from pytest_dlperf.report.document import Document, to_text
from pytest_dlperf.report.environment_section import environment_blocks
from pytest_dlperf.report.page.session_page import comparison_section
from tests.helpers.report_builders import case, environment, measured, published, unmeasured

LONG = {"samples_per_epoch": 234_619, "epochs": 50}
NASTY = "<script>alert(1)</script> | `x` \n& [^9]"
CHINESE = "训练吞吐率 单机八卡"


class Page(HTMLParser):
    """Collects cells, tags and text; complains of tags that are not closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.rows: list[list[str]] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in {"meta", "hr"}:
            self._open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in {"td", "th"}:
            self.rows[-1].append("")
        for name, value in attrs:
            if name == "href":
                self.links.append(value or "")
            if name == "id":
                self.ids.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "td" in self._open or "th" in self._open:
            self.rows[-1][-1] += data


@pytest.fixture
def document() -> Document:
    outcomes = [
        measured(case("torch", "1n1g"), 55.0),
        measured(case("torch", "1n8g", **LONG), 385.0, alone=55.0),
        measured(case("paddle", "1n8g", **LONG), 550.25, alone=80.0),
        unmeasured(case("paddle", "1n1g"), Verdict.NOT_RUN, CHINESE),
    ]
    numbers = [published(case("paddle", "1n8g"), 549.176, time_to_train_s=22549.33)]
    return comparison_document(environment_blocks(outcomes), compare(outcomes, numbers))


@pytest.fixture
def nasty() -> Document:
    outcomes = [
        measured(case("torch", "1n1g"), 55.0, environment=environment(image=NASTY)),
        unmeasured(case("torch", "1n8g"), Verdict.ERROR, NASTY),
    ]
    return comparison_document(environment_blocks(outcomes), compare(outcomes, [], "image"))


def test_text_has_the_figures_in_columns(document):
    lines = to_text(document).splitlines()
    at = lines.index("tsm, amp: throughput")
    assert lines[at + 1].startswith("samples/s over iterations 50 to 150: median over the runs")
    headings, one, eight = lines[at + 2 : at + 5]
    assert headings.split("  ")[-1].strip() == "paddle published"
    assert one.split() == ["1", "1n1g", "16", "55.00", "1.00", "--", "--[1]", "--[1]", "--"]
    assert eight.split() == [
        *("8", "1n8g", "16", "385.0", "7.00", "--", "550.2", "6.88", "549.176[2]"),
    ]
    assert {len(headings), len(one), len(eight)} == {len(headings)}
    assert f"[1] not-run: {CHINESE}" in lines
    told = "[2] published for 8x-v100-sxm2-32gb, in samples/s: TSM report (性能复现)"
    assert told in lines
    assert "  driver         450.80.02" in lines
    assert "  cases          tsm-paddle 1, tsm-torch 2" in lines


def test_text_has_the_time_to_train(document):
    lines = to_text(document).splitlines()
    at = lines.index("tsm, amp: time to train")
    assert "validation is not in it" in lines[at + 1]
    assert lines[at + 4].split() == ["8", "1n8g", "16", "30470", "--", "21319", "22549.33[2]"]


def test_text_of_nothing_measured_names_no_unit():
    lone = unmeasured(case("torch", "1n8g"), Verdict.NOT_RUN, "not installed")
    lines = to_text(comparison_document((), compare([lone], []))).splitlines()
    at = lines.index("tsm, amp: throughput")
    assert lines[at + 1] == "nothing was measured"
    assert "torch rate" in lines[at + 2]
    assert lines[at + 3].split() == ["8", "1n8g", "16", "--[1]", "--[1]"]


def test_text_keeps_columns_under_wide_characters():
    outcomes = [
        measured(case("torch", "1n1g"), 55.0, environment=environment(image="镜像")),
        measured(case("torch", "1n8g"), 385.0, alone=55.0, environment=environment(image="镜像")),
    ]
    lines = to_text(comparison_document((), compare(outcomes, [], "image"))).splitlines()
    at = lines.index("tsm, torch, amp: throughput")
    # Each of the four wide characters of the headings takes two columns
    assert len(lines[at + 2]) + 4 == len(lines[at + 3]) == len(lines[at + 4])


def test_markdown_is_a_table_with_footnotes(document):
    lines = markdown.render(document).splitlines()
    assert "| 8 | 1n8g | 16 | 385.0 | 7.00 | -- | 550.2 | 6.88 | 549.176[^2] |" in lines
    assert f"[^1]: not-run: {CHINESE}" in lines
    assert "- GPU: Tesla V100-SXM2-32GB \\* 8" in lines


def test_markdown_escapes_what_would_be_markup(nasty):
    made = markdown.render(nasty)
    assert "<script>" not in made
    assert "error: \\<script\\>alert(1)\\</script\\> \\| \\`x\\` \\& \\[^9\\]" in made
    rows = [line for line in made.splitlines() if line.startswith("| ")]
    assert len({line.replace("\\|", "").count("|") for line in rows}) == 1


def test_html_says_the_same_as_the_text(document):
    made = comparison_section(document)
    page = Page(made)
    assert ["8", "1n8g", "16", "385.0", "7.00", "--", "550.2", "6.88", "549.1762"] in page.rows
    assert CHINESE in made
    assert {link.removeprefix("#") for link in page.links} == set(page.ids)


def test_html_escapes_everything(nasty):
    made = comparison_section(nasty)
    assert "<script>" not in made
    assert made.count("&lt;script&gt;") == 4
    assert "script" not in Page(made).tags
