from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.run import RunSummary
from pytest_dlperf.measure.summary import summarise
from tests.helpers.record_files import case, changed, rank_records, without, write


def test_throughput_is_the_work_of_all_ranks_over_the_time_of_the_slowest(tmp_path: Path):
    run = write(tmp_path, [rank_records(0, seconds=0.1), rank_records(1, seconds=0.2)])
    summary, facts = summarise(case(), run)
    # 10 measured iterations of 4 samples on 2 ranks, in 10 x 0.2 s.
    assert summary.throughput == pytest.approx(80 / 2.0)
    assert summary.step_seconds == (0.2,) * 20
    assert summary.peak_memory_bytes == 1001
    assert summary.time_to_first_step_s == pytest.approx(2.5)
    assert summary.canary == {"matmul_gflop_per_s": pytest.approx(105.0)}
    assert summary.canary_by_node == {"n1": summary.canary}
    assert [r.seconds for r in summary.ranks] == pytest.approx([1.0, 2.0])
    assert summary.ranks[0].loss_first > summary.ranks[0].loss_last
    assert facts["model"]["parameter_count"] == 10


@pytest.mark.parametrize(
    ("parts", "work"),
    [((4.0, 4.0), 4.0), ((8.0, 4.0), 6.0), ((4.0, 8.0), 6.0), ((4.0, 4.0 / 3), 8.0 / 3)],
)
def test_the_work_that_is_compared_is_that_of_the_throughput(
    tmp_path: Path, parts: tuple[float, float], work: float
):
    ranks = [rank_records(0), rank_records(1)]
    for records, part in zip(ranks, parts, strict=True):
        for record in records:
            if record["record"] == "span":
                record["work"] = part
    summary, facts = summarise(case(), write(tmp_path, ranks))
    assert facts["work"] == pytest.approx(work)
    assert summary.throughput == pytest.approx(2 * facts["work"] / 0.1)


def test_work_that_varies_is_no_condition(tmp_path: Path):
    ranks = [rank_records(0), rank_records(1)]
    spans = [record for record in ranks[1] if record["record"] == "span"]
    spans[-1]["work"] = 5.0
    _, facts = summarise(case(), write(tmp_path, ranks))
    assert "work" not in facts


def test_each_node_has_its_own_canary(tmp_path: Path):
    ranks = [rank_records(0), changed(rank_records(1), "start", node="n2")]
    summary, _ = summarise(case(), write(tmp_path, ranks))
    assert summary.canary_by_node == {
        "n1": {"matmul_gflop_per_s": pytest.approx(105.0)},
        "n2": {"matmul_gflop_per_s": pytest.approx(106.0)},
    }


def test_a_median_would_miss_labels_that_are_right_every_other_time(tmp_path: Path):
    """Two clips with their labels shuffled: over the last iterations most losses are near 0."""
    records = rank_records(0, world_size=1)
    [losses] = [record for record in records if record["record"] == "loss"]
    losses["values"][-3:] = [0.0, 12.0, 0.0]
    summary, _ = summarise(case("1n1c"), write(tmp_path, [records]))
    assert summary.ranks[0].loss_last == pytest.approx(4.0)


def test_the_fall_of_the_loss_is_within_the_iterations_that_were_asked_for(tmp_path: Path):
    """Which the bands of falls are of: a longer window has nearly the same fall at any rate."""
    records = rank_records(0, world_size=1)
    [losses] = [record for record in records if record["record"] == "loss"]
    losses["values"] = [8.0] * 9 + [4.0] * 3 + [0.0] * 8
    run = write(tmp_path, [records])
    longer = replace(case("1n1c").protocol, lengthened_from=12)
    for subject, last in ((case("1n1c"), 0.0), (replace(case("1n1c"), protocol=longer), 4.0)):
        summary, _ = summarise(subject, run)
        assert summary.ranks[0].loss_last == pytest.approx(last)
    losses["values"][-1] = None  # as NaN is written
    with pytest.raises(CaseError, match="not a finite number"):
        summarise(replace(case("1n1c"), protocol=longer), write(tmp_path / "nan", [records]))


def test_rules_of_rates_are_not_the_time_weighted_rate(tmp_path: Path):
    records = rank_records(0, world_size=1)
    spans = [r for r in records if r["record"] == "span"]
    spans[-1]["seconds"] = 1.1  # one stall
    summary, _ = summarise(case("1n1c"), write(tmp_path, [records]))
    assert summary.throughput == pytest.approx(40 / 2.0)
    assert summary.estimates["median_step"] == pytest.approx(40)
    assert summary.estimates["mean_of_rates"] == pytest.approx((9 * 40 + 4 / 1.1) / 10)


def test_warm_up_does_not_count(tmp_path: Path):
    records = rank_records(0, world_size=1)
    for record in records:
        if record["record"] == "span" and record["first_step"] < 10:
            record["seconds"] = 50.0
    summary, _ = summarise(case("1n1c"), write(tmp_path, [records]))
    assert summary.throughput == pytest.approx(40)


def test_ranks_whose_parameters_differ_are_an_error(tmp_path: Path):
    other = changed(rank_records(1), "checksum", value={"digest": "other", "tensors": 2})
    with pytest.raises(CaseError, match="gradients are not averaged"):
        summarise(case(), write(tmp_path, [rank_records(0), other]))


@pytest.mark.parametrize("digest", ["other", "abc"])
def test_a_program_with_marks_may_declare_parameters(tmp_path: Path, digest: str):
    ranks = [
        without(changed(rank_records(r), "checksum", value={"digest": one, "tensors": 2}), "model")
        for r, one in enumerate(("abc", digest))
    ]
    run = write(tmp_path, ranks)
    program = replace(case(), command=("python", "main.py"), workload="")
    if digest == "abc":
        assert len(summarise(program, run)[0].ranks) == 2
    else:
        with pytest.raises(CaseError, match="gradients are not averaged"):
            summarise(program, run)


def shards(rank: int, place: str, digest: str) -> dict[str, Any]:
    """A checksum of a rank whose parameters are all sharded, after the whole ones: none."""
    of_shards = {"digest": digest, "tensors": 2, "place": f"{rank}" if place == "own" else place}
    return {"digest": "none", "tensors": 0, "shards": of_shards}


def test_ranks_hold_shards_of_their_own(tmp_path: Path):
    ranks = [
        changed(rank_records(r), "checksum", value=shards(r, "own", f"digest {r}")) for r in (0, 1)
    ]
    summary, _ = summarise(case(), write(tmp_path, ranks))
    assert summary.problems == ()


@pytest.mark.parametrize("other", [shards(1, "first", "other"), {"digest": "none", "tensors": 0}])
def test_copies_of_a_shard_that_differ_are_an_error(tmp_path: Path, other: dict[str, Any]):
    ranks = [
        changed(rank_records(0), "checksum", value=shards(0, "first", "digest")),
        changed(rank_records(1), "checksum", value=other),
    ]
    with pytest.raises(CaseError, match="gradients are not averaged"):
        summarise(case(), write(tmp_path, ranks))


def test_ranks_that_declare_nothing_replicated_are_an_error(tmp_path: Path):
    ranks = [changed(rank_records(r), "checksum", value=None) for r in (0, 1)]
    with pytest.raises(CaseError, match=r"job\.data_parallel"):
        summarise(case(), write(tmp_path, ranks))


def test_a_missing_rank_is_an_error(tmp_path: Path):
    with pytest.raises(CaseError, match="rank 1 never started"):
        summarise(case(), write(tmp_path, [rank_records(0)]))


def test_another_version_of_the_records_is_an_error(tmp_path: Path):
    ranks = [changed(rank_records(r), "start", format=2) for r in (0, 1)]
    with pytest.raises(CaseError, match="format 2"):
        summarise(case(), write(tmp_path, ranks))


def test_a_window_with_a_hole_is_an_error(tmp_path: Path):
    short = rank_records(1)[:-3]
    with pytest.raises(CaseError, match="wrote 7 spans for the 10"):
        summarise(case(), write(tmp_path, [rank_records(0), short]))


def test_an_abort_after_the_result_is_reported_and_the_result_counts(tmp_path: Path):
    run = write(tmp_path, [rank_records(0), rank_records(1)], exit_code=1)
    summary, _ = summarise(case(), run)
    assert [p.code for p in summary.problems] == ["aborted-at-teardown"]


def test_the_waits_of_the_slowest_ranks_iterations_are_kept(tmp_path: Path):
    slow, fast = rank_records(1, seconds=0.2), rank_records(0, seconds=0.1)
    spans = [record for record in slow if record["record"] == "span"]
    for record in spans:
        record["data_wait_seconds"] = 0.05
    summary, _ = summarise(case(), write(tmp_path, [fast, slow]))
    assert summary.data_wait_seconds == (0.05,) * 20
    assert summary.data_wait_share == pytest.approx(0.25)


def reading(rank: int, *, wait_s: float, alone: int) -> list[dict[str, Any]]:
    """Of a rank whose readers gave so many batches in a second before the training."""
    records = rank_records(rank)
    for record in records:
        if record["record"] == "span":
            record["data_wait_seconds"] = wait_s
    data = {
        "record": "data", "kind": "real", "workers": 4, "first_samples": [rank],
        "alone_batches": alone, "alone_seconds": 1.0, "batches_per_iteration": 1.0,
    }  # fmt: skip
    return [*records[:-1], data, records[-1]]


def bound(folder: Path, *, wait_s: float, alone: int) -> tuple[str, float, float]:
    run = write(folder, [reading(rank, wait_s=wait_s, alone=alone) for rank in range(2)])
    summary, _ = summarise(case(unit="clips", work=4), run)
    words = [p.message for p in summary.problems if p.code == "data-bound"]
    assert summary.time_to_first_step_s is not None
    return "".join(words), summary.extras["reader_alone_per_s"], summary.time_to_first_step_s


def test_a_training_that_its_readers_hold_up_says_what_they_give_alone(tmp_path: Path):
    """Ten iterations a second of two ranks of four clips; readers give twelve batches each."""
    words, alone, first_s = bound(tmp_path, wait_s=0.03, alone=12)
    assert alone == pytest.approx(96)
    assert words == (
        "30% of the time went into waiting for data; without a training the readers give 96 "
        "clips/s (4 workers a rank), and with it 80 clips/s were trained"
    )
    words, alone, _ = bound(tmp_path, wait_s=0.03, alone=10)
    assert words.endswith(
        "80 clips/s were trained: reading is what is measured (docs/data.md says how to read "
        "faster)"
    )
    assert first_s == pytest.approx(1.5), "without the second for the readers"


def test_readers_that_are_fast_enough_are_a_figure_alone(tmp_path: Path):
    assert bound(tmp_path, wait_s=0.005, alone=100)[:2] == ("", pytest.approx(800))


def test_waits_that_are_not_known_of_all_iterations_are_not_kept(tmp_path: Path):
    records = rank_records(0, world_size=1)
    spans = [record for record in records if record["record"] == "span"]
    spans[3]["data_wait_seconds"] = 0.05
    summary, _ = summarise(case("1n1c"), write(tmp_path, [records]))
    assert summary.data_wait_seconds == ()


def test_a_run_whose_steps_drift_says_so(tmp_path: Path):
    records = rank_records(0, world_size=1)
    for record in records:
        if record["record"] == "span" and record["first_step"] >= 15:
            record["seconds"] = 0.15
    summary, _ = summarise(case("1n1c"), write(tmp_path, [records]))
    assert [p.code for p in summary.problems] == ["drift"]
    assert "iterations 15 to 19 ran at 26.67 samples/s" in summary.problems[0].message


def test_what_could_not_be_checked_is_a_problem(tmp_path: Path):
    records = changed(rank_records(0, world_size=1), "model", input_shapes=None, flops_by_dtype={})
    summary, _ = summarise(case("1n1c"), write(tmp_path, [records]))
    assert {p.code for p in summary.problems} == {"batch-unchecked", "precision-unchecked"}
    assert all("job.data_parallel(model)" in p.message for p in summary.problems)


BOTH = {"float32": 100, "bfloat16": 100}


@pytest.mark.parametrize(
    ("precision", "counted", "given", "code"),
    [
        ("fp32", {"float32": 100}, ["float32"], "checked-in-part"),
        ("fp32", {"float32": 100}, [], "checked-in-part"),
        # A short product is not fp32's, and nobody knows whether it is one
        ("fp32", {"float32": 100}, ["bfloat16", "float32"], "precision-unchecked"),
        ("tf32", {"float32": 100}, ["float16"], "precision-unchecked"),
        ("bf16", {"bfloat16": 100}, ["bfloat16"], "checked-in-part"),
        ("bf16", {"bfloat16": 100}, ["float32"], "checked-in-part"),
        # Most may have been done where nobody counts
        ("bf16", {"float32": 100}, ["bfloat16"], "precision-unchecked"),
        ("bf16", BOTH, ["bfloat16"], "precision-unchecked"),
        ("bf16", {}, ["bfloat16"], "precision-unchecked"),
    ],
)
def test_an_operator_that_nobody_counts_leaves_the_precision_open(
    tmp_path: Path, precision: str, counted: dict[str, int], given: list[str], code: str
):
    ranks = [rank_records(0), rank_records(1)]
    # That of a pipeline's last stage, say
    ranks[1] = changed(ranks[1], "model", uncounted={"flash_attn::forward": given})
    ranks = [changed(records, "model", flops_by_dtype=counted) for records in ranks]
    summary, _ = summarise(case(precision=precision), write(tmp_path, ranks))
    assert [p.code for p in summary.problems] == [code]
    assert "flash_attn::forward" in summary.problems[0].message


def test_why_nobody_could_look_is_in_the_problem(tmp_path: Path):
    records = changed(
        rank_records(0, world_size=1),
        "model", input_shapes=None, flops_by_dtype={}, unwatched="too old; upgrade it",
    )  # fmt: skip
    summary, _ = summarise(case("1n1c"), write(tmp_path, [records]))
    assert {p.code: p.message for p in summary.problems} == {
        "batch-unchecked": "the model's inputs were not looked at",
        "precision-unchecked": "its arithmetic was not looked at: too old; upgrade it",
    }


@pytest.mark.parametrize(
    ("busy", "steal", "disturbed"),
    [
        (1.8, 0.0, False),
        (2.2, 0.0, True),
        (1.8, 0.4, True),
        (2.2, 0.4, True),
        (None, None, False),
    ],
)
def test_a_run_that_others_disturbed(
    tmp_path: Path, busy: float | None, steal: float | None, disturbed: bool
):
    ranks = [
        changed(
            rank_records(r, seconds=0.2),
            "window",
            host_busy_seconds=busy and 2 * busy,
            host_steal_seconds=steal,
        )
        for r in (0, 1)
    ]
    summary, _ = summarise(case(), write(tmp_path, ranks))
    assert bool(summary.disturbed) is disturbed
    assert (summary.others_cpu_share is None) is (busy is None)


@pytest.mark.parametrize(
    ("layout", "backend", "problems"),
    [
        ("1n2g", "horovod-gloo", ["all-reduce-without-nccl"]),
        ("1n2g", "horovod-nccl", []),
        ("1n2c", "horovod-gloo", []),
        ("1n2g", "nccl", []),
    ],
)
def test_gpus_whose_horovod_has_no_nccl_are_a_problem(
    tmp_path: Path, layout: str, backend: str, problems: list[str]
):
    told = {"backend": backend, "horovod": "0.28.1 with gloo"}
    ranks = [changed(rank_records(r), "framework", **told) for r in (0, 1)]
    summary, _ = summarise(case(layout), write(tmp_path, ranks))
    assert [problem.code for problem in summary.problems] == problems
    if problems:
        assert "Horovod 0.28.1 with gloo does not use NCCL" in summary.problems[0].message
        assert "HOROVOD_GPU_OPERATIONS=NCCL" in summary.problems[0].message


def test_stolen_time_disturbs_by_itself(tmp_path: Path):
    ranks = [
        changed(rank_records(r, seconds=0.5), "window", host_steal_seconds=0.4) for r in (0, 1)
    ]
    summary, _ = summarise(case(), write(tmp_path, ranks))
    assert summary.disturbed == (
        "the hypervisor gave 0.4 CPU s of host n1 (4% of it) to other guests while the 5.0 s were "
        "measured"
    )
    assert summary.extras["steal_share"] == pytest.approx(0.04)


def test_with_a_warm_up_in_seconds_the_loss_falls_over_a_known_number_of_iterations(
    tmp_path: Path,
):
    """How many more iterations there were, and how far the loss fell, depends on the speed."""
    found = []
    for folder, loss_after in (("fast", 0.01), ("slow", 0.9)):
        ranks = [rank_records(0), rank_records(1)]
        for records in ranks:
            [loss] = [one for one in records if one["record"] == "loss"]
            loss["values"][9:] = [loss_after] * 11
        run = write(tmp_path / folder, ranks)
        summary, _ = summarise(case(warmup_s=3.0), run)
        found.append(summary.loss_fall)
    assert found[0] == found[1]
    assert 0.2 < found[0] < 0.5


def marked(folder: Path, wait_s: float = 0.0, **window: Any) -> RunSummary:
    """Return the summary of a program whose marked steps take 0.1 s, with such waits in them."""
    records = changed(rank_records(0, world_size=1), "window", **window)
    for record in records:
        if record["record"] == "span":
            record["data_wait_seconds"] = wait_s
    program = replace(case("1n1c"), command=("python", "main.py"), workload="")
    return summarise(program, write(folder, [records])).summary


def test_time_between_marked_steps_is_not_called_waiting_for_data(tmp_path: Path):
    """It may be an evaluation: what a program does between its steps was not measured."""
    [problem] = [p for p in marked(tmp_path, 0.06).problems if "60%" in p.message]
    assert problem.code == "between-steps"
    assert "pytest_dlperf.mark.phase" in problem.message
    assert not [p for p in marked(tmp_path, 0.005).problems if p.code == "between-steps"]


def test_phases_that_are_left_out_are_said_and_cost_nothing(tmp_path: Path):
    plain = marked(tmp_path / "plain")
    left = {"left_out": {"evaluation": 0.9, "checkpoint": 0.1}, "left_out_cpu_seconds": 0.75}
    summary = marked(tmp_path / "left", seconds=2.0, **left)
    [problem] = [p for p in summary.problems if p.code == "left-out"]
    assert problem.message == (
        "50% of the time from the first measured step to the last went into phases between "
        "steps, which are not in the rate: evaluation (0.9 s) and checkpoint (0.1 s)"
    )
    assert summary.throughput == plain.throughput
    assert summary.extras["left_out_seconds"] == 1.0
    spent = [one.extras["cpu_seconds_of_ranks"] for one in (plain, summary)]
    assert spent[0] - spent[1] == pytest.approx(0.75)
    assert "left_out_seconds" not in plain.extras
    few = marked(tmp_path / "few", seconds=20.0, **left)
    assert "left-out" not in {p.code for p in few.problems}


def test_a_phase_of_one_rank_alone_is_said(tmp_path: Path):
    """The others wait for it in their steps, which are in the rate."""
    ranks = [rank_records(0), rank_records(1)]
    ranks[1] = changed(ranks[1], "window", seconds=2.0, left_out={"evaluation": 1.0})
    program = replace(case(), command=("python", "main.py"), workload="")
    summary = summarise(program, write(tmp_path, ranks)).summary
    [problem] = [p for p in summary.problems if p.code == "left-out"]
    assert "that is of rank 1, and rank 0 left 0 s out" in problem.message


@pytest.mark.parametrize("wrong", [{"data_wait_seconds": -0.1}, {"seconds": -0.1}])
def test_a_negative_time_is_an_error(tmp_path: Path, wrong: dict[str, float]):
    """Steps that overlap were taken for steps twice as fast."""
    records = rank_records(0, world_size=1)
    spans = [record for record in records if record["record"] == "span"]
    spans[12].update(wrong)
    with pytest.raises(CaseError, match="wrote a negative time of iteration 12"):
        summarise(case("1n1c"), write(tmp_path, [records]))
