"""Facts about scaling as the terminal and ``dlperf report`` show them."""

from __future__ import annotations

from dataclasses import replace

from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.run import RankScaling, RankSummary, Scaling
from pytest_dlperf.report import markdown, terminal
from pytest_dlperf.report.document import Document, to_text
from pytest_dlperf.report.page.session_page import comparison_section
from pytest_dlperf.report.scaling import scaling_grid
from tests.helpers.report_builders import case, measured


def outcome(share: float | None) -> Outcome:
    own = (0.1, 0.1, 0.118)
    scaling = Scaling(
        method="steps without averaging" if share is not None else "",
        ranks=tuple(
            RankScaling(rank=r, node="n1", step_seconds=0.2, own_seconds=s if share else None)
            for r, s in enumerate(own)
        ),
        collectives_share=share,
        all_reduce_gb_per_s={"65536": 0.5, "4194304": 9.0} if share is not None else {},
    )
    ranks = tuple(
        RankSummary(rank=r, node="n1", seconds=1.0, cpu_seconds=None, peak_memory_bytes=None,
                    loss_first=None, loss_last=None)
        for r in range(3)
    )  # fmt: skip
    made = measured(case(), 100.0, 101.0)
    assert made.measurement is not None
    runs = tuple(replace(run, scaling=scaling, ranks=ranks) for run in made.measurement.runs)
    return replace(made, measurement=replace(made.measurement, runs=runs))


def summary_of(one: Outcome) -> list[str]:
    lines = terminal.render([one], width=80)
    return [line.plain for line in lines if "scaling" in line.plain]


def test_a_line_a_case_in_the_terminal() -> None:
    lines = summary_of(outcome(0.41))
    assert lines == [
        "scaling: tsm-torch-amp-bs16-1n8g: collectives 41.0 % (steps without averaging) of a "
        "step; slowest rank 2 on n1: +18.0 %; all-reduce 64 KiB 0.5 GB/s, 4 MiB 9 GB/s"
    ]


def test_what_is_not_known_is_no_number() -> None:
    [line] = summary_of(outcome(None))
    assert line.endswith("collectives -- of a step; slowest --; all-reduce --")


def test_a_case_without_such_facts_has_no_line_and_no_table() -> None:
    plain = measured(case(), 100.0)
    assert not summary_of(plain)
    assert scaling_grid([plain]) is None


def test_the_report_has_a_table_in_every_format() -> None:
    grid = scaling_grid([outcome(0.41), measured(case(), 100.0)])
    assert grid is not None
    assert len(grid.rows) == 1
    document = Document(title="t", environments=(), grids=(grid,), footnotes=())
    for render in (to_text, markdown.render, comparison_section):
        page = render(document)
        assert "Scaling" in page
        assert "41.0 %" in page
        assert "rank 2 on n1: +18.0 %" in page
