"""``dlperf history site``: stable links, states, comparison, and a folder with other files."""

from __future__ import annotations

import json
import re
import sqlite3
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import pytest

pytest.importorskip("otava", reason="Apache Otava is not installed (tox env outputs)")

import site_size
from pytest_dlperf.core.baseline import ReplacedLevel
from pytest_dlperf.core.case import Known
from pytest_dlperf.core.verdict import Verdict
from pytest_dlperf.report.page.site_frame import case_page_name
from pytest_dlperf.store.baseline.store import BaselineStore
from pytest_dlperf.store.history.address import Address
from pytest_dlperf.store.history.append import append
from tests.helpers import baseline_builders
from tests.helpers.chromium import chromium
from tests.helpers.history_builders import case, days, outcome, text

NASTY = '<script>alert(1)</script>"\u202e节点'
CASE = case().id
PAGE = f"case/{CASE}.html"


def read(folder: str = "site") -> dict[str, str]:
    """Return the pages of a site by their names."""
    root = Path(folder)
    return {
        str(path.relative_to(root)): path.read_text(encoding="utf-8")
        for path in sorted(root.rglob("*.html"))
    }


def rows(page: str) -> list[list[str]]:
    """Return the cells of the first table, as text."""
    body = page.partition("<tbody>")[2].partition("</tbody>")[0]
    return [
        [unescape(re.sub("<[^>]*>", "", cell)) for cell in re.findall(r"<t[dh].*?</t[dh]>", row)]
        for row in re.findall(r"<tr.*?</tr>", body, re.S)
    ]


def by_place(page: str) -> dict[tuple[str, str], list[str]]:
    """Return the rows of the first page by case and node."""
    rows_by_place = {}
    for case_cell, *cells in rows(page):
        case_id, _, node = re.fullmatch(r"(.*?)(8x-[^,]*), (.*)", case_cell).groups()
        rows_by_place[case_id, node] = [case_cell, *cells]
    return rows_by_place


def compared(page: str) -> dict[str, object]:
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page)
    assert data is not None
    values: dict[str, object] = json.loads(data[1])
    return values


@pytest.fixture
def two_years(here: Address) -> Address:
    """A case that became slower, on two nodes; a steady one; one that was not measured last."""
    for day, (one, other, third) in enumerate(
        zip(
            days(40, changed_on=20),
            days(40, node="node2"),
            days(40, of=case(layout="1n1g")),
            strict=True,
        )
    ):
        append(here, f"session{day:02}", [one, other, third])
    slow = (961.0, 962.0, 963.0)
    failed = outcome(50, rates=slow, verdict=Verdict.REGRESSED, reason="4 % slower than before")
    append(here, "session50", [failed])
    return here


def test_the_first_page_has_the_state_of_every_series(two_years: Address, capsys):
    told = text(capsys, "site", "site")
    assert told.startswith("2 cases of 41 sessions: site/index.html, ")
    pages = read()
    assert set(pages) == {
        "index.html", "sessions.html", "compare.html", PAGE, f"case/{case(layout='1n1g').id}.html",
    }  # fmt: skip
    found = by_place(pages["index.html"])
    slower = found[CASE, "node1"]
    assert slower[1] == "▼ regressed"
    assert slower[6:] == ["2026-10-21", "41"]
    assert re.fullmatch(r"-4\.\d % since 2026-09-21not accepted", slower[5])
    assert found[CASE, "node2"][1] == "✓ passed"
    assert found[CASE, "node2"][5] == "--"
    assert pages["index.html"].count('class="drawn spark"') == 3
    head = pages["index.html"].partition("</header>")[0]
    assert "history.sqlite</bdi> · <bdi>41 sessions</bdi> · <bdi>2026-09-01 02:00:00 to " in head
    assert not any(str(Path.cwd()) in page for page in pages.values())


def test_a_cases_page_has_its_series_changes_and_last_words(two_years: Address, capsys):
    text(capsys, "site", "site")
    page = read()[PAGE]
    assert page.count('<svg class="drawn wide-chart"') == 2
    # One of 81 outcomes is of another verdict, and so of another shape
    assert len(re.findall(r"<a href=[^>]*><circle", page)) == 80
    assert len(re.findall(r'<g class="fall bad"><a href=[^>]*><path', page)) == 1
    assert "4 % slower than before" in page
    (change,) = re.findall(r"<caption>Changes of the level.*?</table>", page, re.S)
    assert "after commit" in change


def test_links_lead_somewhere_and_stay(two_years: Address, capsys):
    text(capsys, "site", "site")
    pages = read()
    before = set()
    for name, page in pages.items():
        for link in re.findall(r'<a href="(.*?)"', page):
            file, _, anchor = unescape(link).partition("#")
            target = (Path("/") / name).parent / file if file else Path("/") / name
            found = pages[str(Path(*[p for p in target.resolve().parts if p != "/"]))]
            if "compare.html" in file and anchor:
                names = compared(found)["sessions"]
                assert {unquote(one) for one in anchor.split("&")} <= set(names)
            elif anchor:
                assert f'id="{anchor}"' in found
            before.add(link)
    # New conditions of the same case, a new case, a new session
    append(two_years, "later", [outcome(60, rates=(961.0,), conditions_={"window": (10, 20)})])
    append(two_years, "later", [outcome(61, of=case(layout="2n8g"))])
    text(capsys, "site", "site")
    after = {link for page in read().values() for link in re.findall(r'<a href="(.*?)"', page)}
    assert before <= after


def test_a_level_that_was_accepted_and_a_known_slowdown_are_said(two_years: Address, capsys):
    known = Known(issue="#123", until="2027-01-31", change=-0.04)
    append(two_years, "known", [outcome(62, rates=(961.0,), of=case(known=known))])
    level = ReplacedLevel(
        replaced="2026-09-25T10:00:00Z", reason=NASTY, unit="samples",
        sessions=(baseline_builders.session(second=1),),
    )  # fmt: skip
    stored = baseline_builders.baseline(
        case_id=CASE, machine_class="8x-v100-sxm2-32gb", history=(level,)
    )
    BaselineStore(Path("baselines")).write(stored)
    # One that was never replaced
    first = baseline_builders.baseline(
        case_id=case(layout="1n1g").id, machine_class="8x-v100-sxm2-32gb"
    )
    BaselineStore(Path("baselines")).write(first)
    text(capsys, "site", "site")
    pages = read()
    found = by_place(pages["index.html"])
    assert found[CASE, "node1"][5].endswith("accepted: " + NASTY.replace("\u202e", "\\u202e"))
    assert found[CASE, "node2"][5] == "--"
    assert "Levels that somebody accepted" in pages[PAGE]
    assert "known: #123, -4.0 % until 2027-01-31" in pages[PAGE]
    assert all("<script>alert" not in page for page in pages.values())


def test_an_acceptance_of_before_the_change_does_not_count(two_years: Address, capsys):
    level = ReplacedLevel(
        replaced="2026-09-10T10:00:00Z", reason="earlier", unit="samples",
        sessions=(baseline_builders.session(second=1),),
    )  # fmt: skip
    stored = baseline_builders.baseline(
        case_id=CASE, machine_class="8x-v100-sxm2-32gb", history=(level,)
    )
    BaselineStore(Path("levels")).write(stored)
    text(capsys, "site", "site", "--baselines=levels")
    assert not any("accepted: " in row[5] for row in rows(read()["index.html"]))
    assert "earlier" in read()[PAGE]


def test_sessions_are_listed_and_any_two_are_compared(two_years: Address, capsys):
    text(capsys, "site", "site")
    pages = read()
    sessions = rows(pages["sessions.html"])
    assert [row[1] for row in sessions[:2]] == ["session50", "session39"]
    assert sessions[0][3:6] == ["1", "▼ regressed 1", CASE]
    data = compared(pages["compare.html"])
    assert len(data["outcomes"]) == len(data["sessions"]) == 41
    assert [len(one) for one in data["outcomes"]] == [3] * 40 + [1]
    # Without scripts: the newest two
    (first, *_, last) = rows(pages["compare.html"])
    assert (first[0], first[4], first[6]) == (CASE, first[4], "regressed")
    assert last[3:5] == ["--", "--"]


def test_an_outcome_that_does_not_count_is_named_so(two_years: Address, capsys):
    append(two_years, "injected", [outcome(63, rates=(500.0,), inject=0.5)])
    text(capsys, "site", "site")
    pages = read()
    found = by_place(pages["index.html"])
    assert found[CASE, "node1"][1] == "✓ passed (injected)"
    assert found[CASE, "node1"][3] == "962.0 samples/s"
    first = rows(pages["compare.html"])[0]
    assert (first[3], first[6]) == ("500.0 samples/s", "passed (injected)")


@pytest.mark.parametrize(
    "case_id", ["", "..", "a/b", "A", "节点", "a b", "con?", "x" * 300, "a\0b", "-x", "\ud800"]
)
def test_an_odd_id_has_a_file_of_its_own_below_the_folder(case_id: str):
    name = case_page_name(case_id)
    assert re.fullmatch(r"case/[a-z0-9][a-z0-9._+-]*~[0-9a-f]{10}\.html", name)
    assert len(name) < 120
    assert name == case_page_name(case_id)


def test_ids_that_differ_by_capitals_or_odd_characters_share_no_file():
    ids = ["a-b", "a b", "a/b", "A-b", "a-B", "a~b", "a-b~"]
    assert len({case_page_name(one).lower() for one in ids}) == len(ids)


def test_what_a_history_says_is_text(here: Address, capsys):
    append(here, NASTY, [outcome(0, node=NASTY, reason=NASTY, commit=NASTY)])
    assert here.file is not None
    with sqlite3.connect(here.file) as connection:
        connection.execute("UPDATE dlperf_series SET case_id = ?", (f"../{NASTY}",))
    connection.close()
    text(capsys, "site", "site")
    pages = read()
    assert sum(name.startswith("case/script-alert-1-script~") for name in pages) == 1
    assert sorted(path.name for path in Path("site").iterdir()) == [
        ".dlperf-site.json", "case", "compare.html", "index.html", "sessions.html",
    ]  # fmt: skip
    for page in pages.values():
        assert "<script>alert" not in page
        assert "\u202e" not in re.sub(r'<script type="application/json".*?</script>', "", page)
    assert compared(pages["compare.html"])["sessions"] == [NASTY]


def test_an_empty_history_makes_no_site(here: Address, capsys):
    append(here, "s", [outcome(0)])
    assert here.file is not None
    with sqlite3.connect(here.file) as connection:
        connection.execute("DELETE FROM dlperf_outcome")
    connection.close()
    assert "no outcome of any case fits" in text(capsys, "site", "site", code=2)
    assert not Path("site").exists()


def test_files_of_others_stay_as_they_are(here: Address, capsys):
    append(here, "s", [outcome(0), outcome(1, of=case(layout="1n1g"))])
    folder = Path("site")
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    (folder / "sessions.html").write_text("mine too")
    told = text(capsys, "site", "site", code=2)
    assert "site/sessions.html is not a page of an earlier site" in told
    assert (folder / "sessions.html").read_text() == "mine too"
    (folder / "sessions.html").unlink()
    # What the first call left is known as ours
    text(capsys, "site", "site")
    text(capsys, "site", "site", CASE)
    assert set(read()) == {"index.html", "sessions.html", "compare.html", PAGE}
    assert (folder / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    "files", [["../notes.txt"], ["/etc/passwd.html"], ["case/../../x.html"], "index.html", [3]]
)
def test_a_list_of_pages_that_names_others_is_refused(here: Address, capsys, files):
    append(here, "s", [outcome(0)])
    Path("site").mkdir()
    Path("notes.txt").write_text("mine")
    Path("site/.dlperf-site.json").write_text(json.dumps({"format": 1, "files": files}))
    assert "not the list of a site's pages" in text(capsys, "site", "site", code=2)
    assert Path("notes.txt").read_text() == "mine"


def test_a_folder_that_is_a_file_is_an_error(here: Address, capsys):
    append(here, "s", [outcome(0)])
    Path("site").write_text("mine")
    assert "site is a file" in text(capsys, "site", "site", code=2)
    assert "gone is not a directory" in text(capsys, "site", "other", "--baselines=gone", code=2)


def test_a_link_in_the_place_of_a_page_is_not_followed(here: Address, capsys):
    append(here, "s", [outcome(0)])
    Path("mine.html").write_text("mine")
    Path("site").mkdir()
    Path("site/index.html").symlink_to(Path("mine.html").resolve())
    assert "is not a page of an earlier site" in text(capsys, "site", "site", code=2)
    assert Path("mine.html").read_text() == "mine"


@pytest.mark.parametrize(
    ("sessions", "megabytes"), [(3, 5.0), pytest.param(500, 50.0, marks=pytest.mark.nightly)]
)
def test_the_site_of_200_cases_is_small(tmp_path: Path, monkeypatch, sessions, megabytes):
    monkeypatch.chdir(tmp_path)
    history = site_size.write_history(tmp_path, sessions)
    site = site_size.write_site(history, tmp_path / "site")
    assert len(list(site.glob("case/*.html"))) == 200
    assert site_size.size_bytes(site) < megabytes * 1e6


def test_a_browser_opens_it_from_files_and_compares_two_sessions(two_years: Address, capsys):
    text(capsys, "site", "site")
    errors: list[str] = []
    with chromium() as browser:
        shown = browser.new_page()
        shown.on("console", lambda message: errors.append(message.text))
        shown.on("pageerror", lambda error: errors.append(str(error)))
        shown.on("request", lambda request: errors.extend([request.url] * ("http" in request.url)))
        shown.goto(Path("site/index.html").resolve().as_uri())
        shown.click("button[data-value=slower]")
        shown.locator("#series tbody tr:visible a").click()
        assert shown.locator("h1").inner_text() == CASE
        assert shown.locator("figure .chart > svg:visible").count() == 2
        shown.click("nav a >> text=sessions")
        shown.locator("#sessions tbody tr").nth(5).locator("a").click()
        static = shown.locator("#compared tbody tr").all_inner_texts()
        assert len(static) == 3
        shown.select_option("#before", "0")
        shown.select_option("#after", "39")
        assert shown.url.endswith("#session00&session39")
        made = shown.locator("#compared tbody tr").all_inner_texts()
        shown.goto("about:blank")
        shown.goto(f"{Path('site/compare.html').resolve().as_uri()}#session00&session39")
        assert shown.locator("#compared tbody tr").all_inner_texts() == made
        assert "%" in made[0]
        shown.click("#compared th >> text=change")
    assert errors == []


def test_the_script_compares_as_the_page_without_scripts(here: Address, capsys):
    two = [outcome(0, rates=(123456.7,)), outcome(0, of=case(layout="1n1g"), rates=(0.012345,))]
    append(here, "a", two)
    third = outcome(1, of=case(layout="2n8g"), rates=(55.0,))
    append(here, "b", [outcome(1, rates=(1200.0,)), third])
    text(capsys, "site", "site")
    found = []
    with chromium() as browser:
        for scripts in (True, False):
            shown = browser.new_context(java_script_enabled=scripts).new_page()
            shown.goto(Path("site/compare.html").resolve().as_uri())
            found.append(shown.locator("#compared tbody").inner_html().replace("\n", ""))
            texts = shown.locator("#compared tbody tr").all_inner_texts()
    assert len(texts) == 3
    cells = [[re.sub("(<[^>]*>)+", "|", row) for row in one.split("</tr>")] for one in found]
    assert cells[0] == cells[1]
