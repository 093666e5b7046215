"""The list of cases: what was published, and what no short run can show."""

from __future__ import annotations

from pytest_dlperf.session.terminal.dry_run import ListRow, render, to_json

FULL = ListRow(
    case_id="tsm-paddle-amp-bs16-1n8g",
    runs_here="needs 8 GPUs",
    baseline="none",
    published="549.176 samples/s (8x-v100-sxm2-32gb)",
    accuracy_percent=71.0,
    time_to_train_s=22549.33,
)
EMPTY = ListRow(case_id="tsm-torch-fp32-bs16-1n8g", runs_here="yes", baseline="none")


def test_accuracy_and_time_need_full_training():
    headings, full, empty = render([FULL, EMPTY])
    assert headings.split("  ")[0] == "case"
    assert "71.00 %, needs full training" in full
    assert "22549.33 s, needs full training" in full
    assert empty.split() == ["tsm-torch-fp32-bs16-1n8g", "none", "--", "--", "--", "yes"]
    at = headings.index("runs here")
    assert (full[at:], empty[at:]) == ("needs 8 GPUs", "yes")


def test_json_has_the_numbers():
    full, empty = to_json([FULL, EMPTY])["cases"]
    assert (full["accuracy_percent"], full["time_to_train_s"]) == (71.0, 22549.33)
    assert (empty["accuracy_percent"], empty["time_to_train_s"]) == (None, None)
