"""Cells: what was measured, what was not and why, what differs, what was published."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.verdict import Verdict
from pytest_dlperf.report.compared_cell import Cell
from pytest_dlperf.report.comparison_document import Table, compare
from tests.helpers.report_builders import case, environment, measured, published, unmeasured

TORCH_1, TORCH_8 = case("torch", "1n1g"), case("torch", "1n8g")
PADDLE_1, PADDLE_8 = case("paddle", "1n1g"), case("paddle", "1n8g")


def cell(table: Table, layout: str, column: str) -> Cell:
    row = next(row for row in table.rows if row.layout == layout)
    return row.cells[table.columns.index(column)]


def test_rows_are_layouts_and_columns_frameworks():
    tables = compare(
        [
            measured(PADDLE_8, 549.0, 551.0, 550.0, alone=80.0),
            measured(TORCH_1, 55.0),
            measured(TORCH_8, 384.0, 386.0, 385.0, alone=55.0),
            measured(PADDLE_1, 80.0),
            measured(case("torch", "4n8g"), 1380.0, alone=55.0),
        ],
        [],
    )
    (table,) = tables.tables
    assert (table.suite, table.precision, table.framework) == ("tsm", "amp", None)
    assert (table.unit, table.window) == ("samples", (50, 150))
    assert table.columns == ("paddle", "torch")
    rows = [(row.devices, row.layout, row.batch_size_per_device) for row in table.rows]
    assert rows == [(1, "1n1g", 16), (8, "1n8g", 16), (32, "4n8g", 16)]
    assert cell(table, "1n8g", "paddle").throughput == 550.0
    assert cell(table, "1n8g", "paddle").speedup == 550.0 / 80.0
    assert cell(table, "1n1g", "torch").speedup == 1.0
    assert cell(table, "1n8g", "torch").notes == ()


def test_what_was_not_measured_says_why():
    tables = compare(
        [
            measured(TORCH_8, 385.0, alone=55.0),
            unmeasured(TORCH_1, Verdict.ERROR, "rank 0 died"),
            unmeasured(PADDLE_1, Verdict.NOT_RUN, "paddle is not installed"),
        ],
        [],
    )
    (table,) = tables.tables
    for layout, column, why in (
        ("1n1g", "torch", "error: rank 0 died"),
        ("1n1g", "paddle", "not-run: paddle is not installed"),
        ("1n8g", "paddle", "no result for it"),
    ):
        found = cell(table, layout, column)
        assert found.throughput is None
        assert found.notes == (why,)
        assert found.speedup_notes == (why,)


def test_the_rate_of_an_error_is_none():
    wrong = measured(TORCH_8, 999.0, verdict=Verdict.ERROR, reason="the loss does not fall")
    tables = compare([wrong], [])
    found = cell(tables.tables[0], "1n8g", "torch")
    assert found.throughput is None
    assert found.notes == ("error: the loss does not fall",)
    assert tables.tables[0].window is None


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"window": (200, 500)}, "measured iterations: 200 to 500 here, 50 to 150 in"),
        ({"unit": "images"}, "unit: images/s here, samples/s in"),
        ({"data": "real"}, "data: real here, synthetic in"),
        ({"dtype": "float32"}, "dtype: float32 here, float16 in"),
        ({"host_sharing": True}, "host shared with others: yes here, no in"),
        ({"hardware": "1x-h200"}, "hardware: 1x-h200 here, 8x-v100-sxm2-32gb in"),
    ],
)
def test_what_differs_is_not_compared_silently(fields, told):
    other = case("tensorflow", "1n8g")
    tables = compare(
        [
            measured(other, 300.0, alone=40.0, conditions_=fields),
            measured(TORCH_8, 385.0, alone=55.0),
            measured(PADDLE_8, 550.0, alone=80.0),
        ],
        [],
    )
    (table,) = tables.tables
    (note,) = cell(table, "1n8g", "tensorflow").notes
    assert note.startswith(told)
    assert cell(table, "1n8g", "torch").notes == ()
    assert (table.unit, table.window) == ("samples", (50, 150))


def test_another_driver_is_said_unless_drivers_are_compared():
    other = measured(
        case("torch", "4n8g"), 1380.0, alone=55.0, environment=environment(driver="470.83.01")
    )
    outcomes = [measured(TORCH_1, 55.0), measured(TORCH_8, 385.0, alone=55.0), other]
    (table,) = compare(outcomes, []).tables
    assert cell(table, "4n8g", "torch").notes == (
        "driver: 470.83.01 here, 450.80.02 in the other cells of this table",
    )
    (table,) = compare(outcomes, [], "driver").tables
    assert cell(table, "4n8g", "470.83.01").notes == ()


def test_a_rate_under_doubt_says_so():
    tables = compare(
        [
            measured(
                TORCH_8, 385.0, verdict=Verdict.UNSTEADY, reason="cannot detect changes below 18 %"
            ),
            measured(TORCH_1, 55.0, inject=0.05),
        ],
        [],
    )
    (table,) = tables.tables
    assert cell(table, "1n8g", "torch").notes == ("unsteady: cannot detect changes below 18 %",)
    assert cell(table, "1n8g", "torch").speedup_notes == (
        "the same case on one device was not measured with it",
    )
    assert cell(table, "1n1g", "torch").notes == ("steps were made 5.0 % longer on purpose",)


def test_of_several_results_the_latest_counts_and_a_shard_that_lacks_it_does_not():
    old = environment(driver="450.80.02")
    new = environment(driver="470.83.01")
    outcomes = [
        measured(TORCH_1, 60.0, environment=new, time="2026-11-22T05:00:00Z"),
        measured(TORCH_1, 55.0, environment=old, time="2026-11-21T05:00:00Z"),
        measured(PADDLE_1, 80.0, time="2026-11-21T05:00:00Z"),
        unmeasured(PADDLE_1, Verdict.NOT_RUN, "not installed", time="2026-11-23T05:00:00Z"),
    ]
    tables = compare(outcomes, [])
    torch, paddle = tables.tables[0].rows[0].cells
    assert (torch.throughput, paddle.throughput) == (60.0, 80.0)
    assert torch.notes == (
        "the latest of 2 results, 2026-11-22T05:00:00Z; they differ in driver, which --compare "
        "can put apart",
        "driver: 470.83.01 here, 450.80.02 in the other cells of this table",
    )
    assert paddle.notes == ()


def test_any_recorded_field_can_be_the_columns():
    new = environment(driver="470.83.01", image="nvcr.io/nvidia/pytorch:20.12-py3")
    outcomes = [
        measured(TORCH_1, 55.0),
        measured(TORCH_1, 60.0, environment=new),
        measured(PADDLE_1, 80.0, environment=environment("paddle", "2.6.2", driver="470.83.01")),
    ]
    by_driver = compare(outcomes, [], "driver")
    assert [(t.framework, t.columns) for t in by_driver.tables] == [
        ("torch", ("450.80.02", "470.83.01")),
        ("paddle", ("470.83.01",)),
    ]
    assert [c.throughput for c in by_driver.tables[0].rows[0].cells] == [55.0, 60.0]
    by_image = compare(outcomes[:2], [], "image")
    assert by_image.tables[0].columns == ("unknown", "nvcr.io/nvidia/pytorch:20.12-py3")
    by_version = compare(outcomes[:1], [], "torch")
    assert by_version.tables[0].columns == ("2.13.0",)


def test_precisions_are_apart_unless_they_are_compared():
    fp32 = case("torch", "1n1g", precision="fp32")
    outcomes = [measured(TORCH_1, 55.0), measured(fp32, 30.0, conditions_={"dtype": "float32"})]
    assert [t.precision for t in compare(outcomes, []).tables] == ["amp", "fp32"]
    (table,) = compare(outcomes, [], "precision").tables
    assert (table.columns, table.precision) == (("amp", "fp32"), None)
    # Another dtype is what another precision means
    assert [c.notes for c in table.rows[0].cells] == [(), ()]


def test_how_cases_are_parallel_can_be_the_columns():
    said = [replace(TORCH_8, parallel=one) for one in ("fsdp2", "tp2", "")]
    (table,) = compare([measured(one, 50.0) for one in said], [], "parallel").tables
    assert set(table.columns) == {"fsdp2", "tp2", "unknown"}
    # An option of that name, which a workload may have had before
    own = [
        replace(TORCH_8, options=(("parallel", one),), axes=(f"parallel_{one}",))
        for one in ("a", "b")
    ]
    (table,) = compare([measured(one, 50.0) for one in own], [], "parallel").tables
    assert table.columns == ("a", "b")


def test_gpus_and_cpus_are_apart():
    outcomes = [measured(TORCH_1, 55.0), measured(case("torch", "1n1c"), 0.5)]
    assert [t.device for t in compare(outcomes, []).tables] == ["gpu", "cpu"]


def test_a_field_that_nothing_records_is_a_usage_error():
    with pytest.raises(UsageError, match=r"no outcome records 'colour'; .*driver, .*framework"):
        compare([measured(TORCH_1, 55.0)], [], "colour")


def test_published_numbers_are_beside_the_measured_ones():
    tables = compare(
        [measured(PADDLE_8, 550.0, alone=80.0), measured(case("torch", size="tiny"), 9.0)],
        [
            published(PADDLE_8, 549.176, speedup=6.85, time_to_train_s=22549.33),
            published(case("torch", "4n8g"), 1380.045),
            published(case("torch", "4n8g", precision="fp32"), 700.0),
        ],
    )
    full, tiny = tables.tables
    beside = cell(full, "1n8g", "paddle").published[0]
    assert (beside.throughput, beside.speedup, beside.time_to_train_s) == (549.176, 6.85, 22549.33)
    assert (beside.machine_class, beside.document) == (
        "8x-v100-sxm2-32gb",
        "TSM report (性能复现)",
    )
    empty = cell(full, "4n8g", "torch")
    assert (empty.throughput, empty.published[0].throughput) == (None, 1380.045)
    assert empty.notes == ("no result for it",)
    assert not any(c.published for row in tiny.rows for c in row.cells)


def test_time_to_train_is_projected_where_the_case_says_how_long_it_is():
    long = case("torch", "1n8g", samples_per_epoch=1000, epochs=5)
    tables = compare([measured(long, 50.0), measured(PADDLE_8, 100.0)], [])
    (table,) = tables.tables
    assert cell(table, "1n8g", "torch").time_to_train_s == 100.0
    paddle = cell(table, "1n8g", "paddle")
    assert paddle.time_to_train_s is None
    assert paddle.time_to_train_notes == ("the case names no samples_per_epoch and epochs",)
