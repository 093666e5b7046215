"""The page of a session: what it says, what it draws, and what cannot break out of it."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from pytest_dlperf.core.packages import PackageChange
from pytest_dlperf.core.verdict import Verdict
from pytest_dlperf.report.page import case_section as case_section_module
from pytest_dlperf.report.page import session_page as session_page_module
from pytest_dlperf.report.page import svg as figure_module
from pytest_dlperf.report.page.markup import Html
from pytest_dlperf.report.page.session_page import render
from pytest_dlperf.report.page.svg import Drawn
from pytest_dlperf.report.page.trace_chart import stalls, trace_chart
from tests.helpers import page_outcomes
from tests.helpers.page_outcomes import case, every_verdict, judged
from tests.helpers.report_builders import case as plain_case
from tests.helpers.report_builders import confirmed, environment, measured, unmeasured

pytestmark = pytest.mark.newest

NASTY = "</details></main><script>alert(1)</script><!--\u202e\x1b[31m"


@pytest.fixture
def charts(monkeypatch: pytest.MonkeyPatch) -> dict[str, Drawn]:
    """The charts of the page that is rendered next."""
    found: dict[str, Drawn] = {}

    def figure(key: str, heading: str, drawn: Drawn | None) -> Html:
        if drawn is not None:
            found[key] = drawn
        return figure_module.figure(key, heading, drawn)

    monkeypatch.setattr(case_section_module, "figure", figure)
    return found


def rates(drawn: Drawn, style: str) -> list[float]:
    """Return the heights of the first marks of ``style``."""
    return [mark.y for mark in drawn.chart.marks(style)]


def section(page: str, case_id: str) -> str:
    found = re.findall(r'<details class="case".*?(?=<details class="case"|<h2>)', page, re.S)
    return next(one for one in found if case_id in one.partition("</summary>")[0])


def test_the_top_counts_verdicts_and_says_what_to_do():
    page = render(every_verdict())
    top = page.partition("<h2>Cases</h2>")[0]
    assert "12 cases, 3 NOT JUDGED" in top
    failed, not_judged = top.split("<h2>NOT JUDGED</h2>")
    assert failed.count('class="sentence failed"') == 3
    assert not_judged.count('class="sentence open"') == 3
    assert "measure again with --dlperf-runs=9" in not_judged
    assert "Run again: <code>pytest &#x27;perf_tests/deeplabv3p/" in not_judged
    assert 'lang="zh-Hans">没有安装 paddle' in not_judged


def test_cases_that_need_attention_come_first_everywhere():
    page = render(every_verdict())
    rows = re.findall(r'<tr data-key="\d+" data-verdict="([a-z-]+)">', page)
    assert rows[:3] == ["error", "regressed", "regressed"]
    assert set(rows[3:6]) == {"not-run", "inconclusive", "no-baseline"}
    opened = r'<details class="case" data-follows="(\d+)">.*?</summary>\n'
    sections = re.findall(rf'{opened}<div class="target" id="(.*?)">', page, re.S)
    assert sections == [(str(i), f"case-{i}") for i in range(12)]
    for _, link in sections:
        assert f'href="#{link}"' in page


def test_the_table_has_the_figures_of_the_terminal():
    outcome = judged(case("tsm", "1n8g"), -0.05, Verdict.REGRESSED)
    page = render([outcome])
    comparison = outcome.judgement.throughput
    row = re.findall(r'<tr data-key="0".*?</tr>', page)[0]
    assert f">{comparison.now:.1f} samples/s<" in row
    assert f">{100 * comparison.change:+.1f} %<" in row
    assert f'data-sort="{comparison.change}"' in row
    assert ">1.8 %<" in row


def test_an_error_is_its_sentence_and_the_last_lines_of_its_log():
    page = render(every_verdict())
    told = section(page, "arcface-torch-amp-bs64-1n8g")
    assert "rank 3: CUDA out of memory: 31.7 of 31.7 GiB" in told
    log = re.findall(r"<pre[^>]*>(.*?)</pre>", told, re.S)
    assert len(log) == 1
    assert log[0].splitlines()[0] == "[rank3]: Traceback (most recent call last):"
    assert "<figure" not in told
    assert "Run again: <code>pytest" in told
    assert "--gpus=1,8</code>" in told


def test_software_that_changed_is_before_the_rest():
    told = section(render(every_verdict()), "tsm-torch-amp-bs16-1n8g")
    changes = told.partition("What changed")[2]
    rows = re.findall(r'<tr><th scope="row">(.*?)</th><td>(.*?)</td><td>(.*?)</td>', changes)
    assert rows[0] == ("torch", "<bdi>2.12.1</bdi>", "<bdi>2.13.0</bdi>")
    assert [row[0] for row in rows[:3]] == ["torch", "nccl", "commit"]
    assert "2026-11-13T02:15:00Z" in changes


def test_packages_that_changed_are_listed_with_the_rest():
    outcome = judged(case(), now=page_outcomes.environment(), sessions=2)
    numpy = PackageChange(name="numpy", before="2.1.0", now="2.2.0")
    told = render([replace(outcome, package_changes=(numpy,))])
    rows = re.findall(r'<tr><th scope="row">(.*?)</th><td>(.*?)</td><td>(.*?)</td>', told)
    assert ("numpy", "<bdi>2.1.0</bdi>", "<bdi>2.2.0</bdi>") in rows


def test_nothing_changed_is_said():
    same = judged(case(), now=page_outcomes.environment(), sessions=2)
    same = replace(same, commit=same.baseline_sessions[-1].commit)
    assert "No recorded software and no part of the machine changed" in render([same])


def test_runs_of_before_and_now_are_drawn_with_band_and_interval(charts):
    outcome = judged(case("tsm", "1n1g"), -0.05, Verdict.REGRESSED)
    render([outcome])
    runs = charts["runs-0"]
    assert len(rates(runs, "baseline")) == 30
    assert rates(runs, "now") == list(outcome.measurement.throughputs)
    comparison = outcome.judgement.throughput
    (band,) = runs.chart.marks("band")
    assert (band.y, band.y2) == (comparison.before * 0.97, comparison.before)
    low, high = comparison.interval
    (bar,) = runs.chart.marks("interval")
    assert bar.y == pytest.approx(comparison.before * (1 + low))
    assert bar.y2 == pytest.approx(comparison.before * (1 + high))
    labels = [tick.label for tick in runs.chart.x.ticks]
    assert (labels[0], labels[-2:]) == ("11-08", ["now", "interval"])
    assert "the band below it is what is tolerated, 3.0 %" in runs.caption


def test_pairs_are_drawn_with_both_arms(charts):
    outcome = page_outcomes.against(case("resnet50", "1n4g"), -0.04, Verdict.REGRESSED)
    page = render([outcome])
    runs = charts["runs-0"]
    assert rates(runs, "baseline") == list(outcome.against.measurement.throughputs)
    assert [mark.x for mark in runs.chart.marks("now")] == [0, 1, 2, 3, 4]
    assert [tick.label for tick in runs.chart.x.ticks][:5] == ["1", "2", "3", "4", "5"]
    assert "grey of torch==2.12.1" in runs.caption
    assert "grey: the median run of torch==2.12.1" in charts["trace-0"].caption
    assert "Differences against torch==2.12.1" in page


def test_pairs_that_decided_are_drawn_beside_the_stored_sessions(charts):
    of, change = case("resnet50", "1n4g"), -0.04
    pairs = page_outcomes.against(of, change, Verdict.REGRESSED)
    stored = judged(of, -0.05, Verdict.INCONCLUSIVE)
    page = render([confirmed(stored, pairs)])
    runs, of_pairs = charts["runs-0"], charts["pairs-0"]
    assert len(rates(runs, "baseline")) == 30
    assert rates(runs, "now") == list(stored.measurement.throughputs)
    (bar,) = runs.chart.marks("interval")
    before = stored.judgement.throughput.before
    assert bar.y == pytest.approx(before * (1 + stored.judgement.throughput.interval[0]))
    assert rates(of_pairs, "baseline") == list(pairs.against.measurement.throughputs)
    assert rates(of_pairs, "now") == list(pairs.measurement.throughputs)
    assert "grey of 1a2b3c4" in of_pairs.caption
    assert "grey: the median run of 1a2b3c4" in charts["pairs-trace-0"].caption
    assert "Runs of now in the pairs" in page
    assert "5 pairs with 1a2b3c4: regressed, 2 min" in page


def test_a_trace_marks_warm_up_stalls_and_waits(charts):
    render([judged(case("tsm", "1n1g"), stalls=(71, 108), waits=True)])
    trace = charts["trace-0"]
    (warmup,) = trace.chart.marks("warmup")
    assert (warmup.x, warmup.x2) == (0, 50)
    assert sorted(mark.x for mark in trace.chart.marks("mark")) == [71, 108]
    assert len(trace.chart.marks("wait")) == 150
    assert all(mark.y2 < mark.y for mark in trace.chart.marks("wait"))
    assert "50 iterations that do not count" in trace.caption
    assert "2 iterations of more than twice the median" in trace.caption
    assert "17.0 % of the window" in trace.caption
    assert len(trace.chart.marks("now")) == 150
    # The first iteration takes six times as long, and would flatten the others.
    assert "The first iterations go beyond the axis, to " in trace.caption


def test_a_trace_of_marked_steps_does_not_say_what_the_time_between_them_was(charts):
    """It may be an evaluation as well as the next batch."""
    outcome = judged(case("tsm", "1n1g"), waits=True)
    assert outcome.measurement is not None
    conditions = outcome.measurement.conditions
    options = {**conditions.options, "command": "python main.py"}
    measurement = replace(outcome.measurement, conditions=replace(conditions, options=options))
    page = render([replace(outcome, measurement=measurement)])
    assert "before its marked step began, 17.0 % of the window" in charts["trace-0"].caption
    assert "waited for data" not in charts["trace-0"].caption
    assert "data wait" not in page


def test_a_long_trace_keeps_its_slowest_iterations():
    outcome = judged(case("tsm", "1n1g"))
    steps = [0.1] * 5000
    steps[3333] = 0.9
    run = replace(outcome.measurement.runs[0], step_seconds=tuple(steps), data_wait_seconds=())
    conditions = replace(outcome.measurement.conditions, window=(50, 5000))
    measurement = replace(outcome.measurement, runs=(run,), conditions=conditions)
    trace = trace_chart(replace(outcome, measurement=measurement))
    drawn = rates(trace, "now")
    assert len(drawn) == 200
    assert max(drawn) == 900.0
    assert "the slowest of 25 iterations" in trace.caption
    assert "beyond the axis" not in trace.caption
    assert stalls(run, 50) == [3333]


def test_steps_that_are_not_the_protocols_have_no_warm_up():
    outcome = judged(case("tsm", "1n1g"))
    run = replace(outcome.measurement.runs[0], step_seconds=(0.1, 0.2), data_wait_seconds=())
    trace = trace_chart(replace(outcome, measurement=replace(outcome.measurement, runs=(run,))))
    assert trace.chart.marks("warmup") == ()
    unknown = replace(run, step_seconds=())
    measurement = replace(outcome.measurement, runs=(unknown,))
    assert trace_chart(replace(outcome, measurement=measurement)) is None


def test_the_scaling_curve_of_all_its_cases_has_the_ideal_line(charts):
    outcomes = every_verdict()
    page = render(outcomes)
    keys = [key for key in charts if key.startswith("scaling-") and "tsm" in key]
    assert len(keys) == 1
    curve = charts[keys[0]]
    assert page.count(f'data-chart="{keys[0]}"') == 5
    now = curve.chart.marks("now")
    layouts = [mark.hover.partition(":")[0] for mark in now]
    assert layouts == ["1n1g", "1n2g", "1n4g", "1n8g", "2n8g"]
    first, last = rates(curve, "ideal")
    assert last == pytest.approx(16 * first)
    assert first == now[0].y


def test_one_case_of_many_ranks_has_its_parent_on_the_curve(charts):
    outcome = judged(case("tsm", "1n8g"))
    render([outcome])
    curve = next(drawn for key, drawn in charts.items() if key.startswith("scaling-"))
    assert [mark.x for mark in curve.chart.marks("now")] == [1, 8]


def test_ranks_have_their_memory_and_skew(charts):
    page = render([judged(case("tsm", "2n8g"), slow_rank=11)])
    skew = [mark for layer in charts["skew-0"].chart.layers for mark in layer.marks]
    assert max(skew, key=lambda mark: mark.y).hover.startswith("rank 11, 训练节点-08: ")
    assert [(layer.style, layer.name) for layer in charts["skew-0"].chart.legend] == [
        ("series-1", "训练节点-07"),
        ("series-2", "训练节点-08"),
    ]
    memory = charts["memory-0"].chart
    assert [len(layer.marks) for layer in memory.legend] == [8, 8]
    nodes = page.partition("<h3>Nodes</h3>")[2]
    assert "canary: matmul_tflops" in nodes
    assert nodes.index("训练节点-07") < nodes.index("训练节点-08")


def test_without_scripts_every_chart_is_a_picture_with_its_marks_and_labels(charts):
    page = render(every_verdict())
    assert len(charts) > 30
    figures = re.findall(r"<figure data-chart=\"(.*?)\">(.*?)</figure>", page, re.S)
    assert {key for key, _ in figures} == set(charts)
    for key, markup in figures:
        chart = charts[key].chart
        assert markup.count('<svg class="drawn') == 1
        assert markup.count('<svg class="swatch"') == len(chart.legend)
        assert f'aria-label="{chart.description}"' in markup
        assert chart.description
        assert charts[key].numbers in markup
        drawn = ElementTree.fromstring(
            re.search(r"<svg class.*?</svg>\n?</div>", markup, re.S)[0][:-6]
        )
        dots = [layer for layer in chart.layers if layer.shape in {"dot", "bar", "rule"}]
        assert sum(len(group) for group in drawn.iter("g") if shape_of(group) in SHAPES) == sum(
            len(layer.marks) for layer in dots
        )
        labels = [text.text for text in drawn.iter("text")]
        assert {chart.x.title, chart.y.title} <= set(labels)
        assert all(f"</svg>{layer.name}</li>" in markup for layer in chart.legend)


SHAPES = {"dot", "bar", "rule"}


def shape_of(group: ElementTree.Element) -> str:
    return group.get("class", "").partition(" ")[0]


def test_whatever_comes_from_outside_is_text():
    hostile = environment(image=NASTY, **{NASTY: NASTY})
    outcomes = [
        replace(
            judged(case("tsm", "1n8g"), now=replace(hostile, node=NASTY, machine_class=NASTY)),
            node_id=NASTY,
            command=shlex.join(["pytest", NASTY]),
            commit=NASTY,
            folder=NASTY,
            published={
                "throughput": 1.0,
                "unit": NASTY,
                "machine_class": NASTY,
                "document": NASTY,
                "table": NASTY,
            },
        ),
        unmeasured(
            plain_case("torch", "1n8g"),
            Verdict.ERROR,
            f"{NASTY}\n    {NASTY}",
            failed=True,
            node_id=NASTY,
            command=shlex.join(["pytest", NASTY]),
            environment=hostile,
        ),
    ]
    page = render(outcomes)
    assert page.count("<script>") == 1
    assert "alert(1)</script>" not in page
    assert "\u202e" not in page
    assert "\x1b" not in page
    assert page.count("</main>") == 1
    assert "\\u202e␛[31m" in page


def test_an_outcome_with_nothing_but_a_verdict_is_shown():
    bare = unmeasured(plain_case(), Verdict.NOT_RUN, "", environment=None, time="")
    page = render([bare])
    assert "tsm-torch-amp-bs16-1n8g" in page
    assert "<figure" not in page


def test_a_session_without_cases_says_so():
    assert "there is nothing to show" in render([])


def test_measured_without_stored_sessions_says_so(charts):
    render([measured(plain_case("torch", "1n1g"), 55.0, 56.0)])
    assert "nothing is stored to compare it with" in charts["runs-0"].caption


@pytest.mark.once
def test_two_hundred_cases_are_below_five_megabytes():
    page = render(page_outcomes.many(200))
    assert len(page.encode()) < 5_000_000
    assert page.count('<details class="case"') == 200
    assert "left out" not in page


def test_of_very_many_cases_the_rest_is_in_the_table(monkeypatch):
    monkeypatch.setattr(session_page_module, "_SECTIONS_MAX", 6)
    monkeypatch.setattr(session_page_module, "_TRACES_MAX", 3)
    outcomes = page_outcomes.many(20)
    page = render(outcomes)
    assert page.count('<details class="case"') == 6
    assert page.count('data-chart="trace-') == 3
    assert page.count("<tr data-key=") == 20
    assert "The 6 cases that need attention most have a section" in page
    assert "the table has all 20" in page
    links = set(re.findall(r'href="#(case-\d+)"', page))
    assert links == set(re.findall(r'id="(case-\d+)"', page))
    assert "are left out" in render(outcomes[:5])
