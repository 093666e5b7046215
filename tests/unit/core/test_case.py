from __future__ import annotations

from typing import Any

import pytest

from pytest_dlperf.cases.marker import cases_of, expand
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.id_words import CaseId
from pytest_dlperf.core.layout import Layout
from pytest_dlperf.core.protocol import Protocol
from pytest_dlperf.core.quantity import parse_share


def case(**changes: object) -> Case:
    values: dict[str, object] = {
        "suite": "tsm",
        "framework": "torch",
        "workload": "mymodel:build",
        "precision": "amp",
        "batch_size_per_device": 16,
        "layout": Layout.parse("1n8g"),
        **changes,
    }
    return Case(**values)  # type: ignore[arg-type]


def test_a_command_may_have_no_framework_and_a_workload_may_not():
    keys = {"suite": "s", "layout": "1n2c", "batch_size_per_device": 2}
    cases = expand(**keys, command=["python", "x.py"], framework=[None, "torch"])
    assert [case.framework for case in cases] == ["none", "torch"]
    assert cases[0].id == "s-none-fp32-bs2-1n2c"
    with pytest.raises(UsageError, match="framework None is for the command of a program"):
        expand(**keys, workload="m:f", framework=None)


def test_ids_are_those_of_the_design():
    assert case().id == "tsm-torch-amp-bs16-1n8g"
    tiny = case(
        size="tiny", precision="bf16", batch_size_per_device=2, layout=Layout.parse("1n2c")
    )
    assert tiny.id == "tsm.tiny-torch-bf16-bs2-1n2c"


def test_a_named_protocol_is_what_the_rest_changes():
    keys = {"suite": "tsm", "workload": "m:build", "batch_size_per_device": 16, "layout": "1n8g"}
    assert expand(**keys)[0].protocol == Protocol()
    assert expand(**keys, protocol="ngc-tf")[0].protocol.window == (200, 700)
    changed = expand(**keys, protocol="ngc-tf", runs=3)[0].protocol
    assert (changed.window, changed.runs) == ((200, 700), 3)
    with pytest.raises(UsageError, match="unknown protocol 'ngc'; known: default, ngc-tf"):
        expand(**keys, protocol="ngc")


def test_a_case_without_a_speedup_has_no_parent():
    [case] = expand(
        suite="s", workload="m:f", layout="1n8g", batch_size_per_device=2, speedup=None
    )
    assert case.parent() is None


KEYS = {"suite": "s", "workload": "m:f", "batch_size_per_device": 2}


@pytest.mark.parametrize("speedup", ["two", "8g", 1, ["1n1g"]])
def test_another_speedup_is_a_usage_error(speedup: object):
    with pytest.raises(
        UsageError, match=r"s: unknown speedup .*; known: one-device, None, or a la"
    ):
        expand(**KEYS, layout="1n8g", speedup=speedup)


@pytest.mark.parametrize(
    ("layout", "speedup", "parent"),
    [
        ("4n8g", "1n8g", "1n8g"),
        ("4n8g", "2n4g", "2n4g"),
        ("1n8g", "1n1g", "1n1g"),
        ("2n2c", "1n2c", "1n2c"),
        ("1n4c", "1n2c", "1n2c"),
    ],
)
def test_a_speedup_is_over_the_layout_that_was_asked_for(layout: str, speedup: str, parent: str):
    [case] = expand(**KEYS, layout=layout, speedup=speedup)
    of = case.parent()
    assert of is not None
    assert str(of.layout) == parent
    assert of.parent() is None


@pytest.mark.parametrize("layout", ["1n4g", "1n8g", "16n4g", "2n8c"])
def test_a_layout_has_no_speedup_over_what_is_no_smaller_part_of_it(layout: str):
    first, second = expand(**KEYS, layout=["2n8g", layout], speedup="1n8g")
    assert first.parent() is not None
    assert second.parent() is None
    with pytest.raises(
        UsageError, match=rf"speedup='1n8g': no declared layout \({layout}\) is la"
    ):
        expand(**KEYS, layout=layout, speedup="1n8g")


def test_parent_is_the_same_case_on_one_device():
    parent = case().parent()
    assert parent is not None
    assert parent.id == "tsm-torch-amp-bs16-1n1g"
    assert parent.parent() is None
    assert case().global_batch_size == 128


@pytest.mark.parametrize(
    ("unit", "work", "of_a_rank"),
    [
        ("samples", None, 16),
        ("Images", None, 16),
        ("", None, 16),
        ("tokens", None, None),
        ("frames", None, None),
        ("tokens", 1024, 1024),
        ("samples", 64, 64),
    ],
)
def test_only_units_of_a_batch_are_counted_by_it(
    unit: str, work: int | None, of_a_rank: int | None
):
    one = case(unit=unit, work=work)
    assert one.replica_work == of_a_rank
    assert one.iteration_work == (None if of_a_rank is None else 8 * of_a_rank)


def test_one_work_for_several_batch_sizes_is_a_usage_error():
    keys = {"suite": "s", "workload": "m:f", "layout": "1n8g", "unit": "tokens", "work": 512}
    assert expand(**keys, batch_size_per_device=8)[0].work == 512
    with pytest.raises(UsageError, match=r"work=512 is that of one batch size, .* has 2; leave"):
        expand(**keys, batch_size_per_device=[8, 16])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"precision": "int4"}, "unknown precision 'int4'; known: fp32, tf32"),
        ({"framework": "mxnet"}, "unknown framework 'mxnet'; known: torch"),
        ({"size": "big"}, "unknown size"),
        ({"workload": "mymodel"}, "write module:function"),
        ({"suite": "a/b"}, "letters, digits and _"),
        ({"batch_size_per_device": 0}, "whole number, 1 or more"),
        ({"work": 0}, "work 0 must be a whole number, 1 or more"),
        ({"work": 2.5}, "work 2.5 must be a whole number"),
        ({"work": True}, "work True must be a whole number"),
        ({"work": "512"}, "work '512' must be a whole number"),
        ({"batch_size_per_device": 2.5}, "whole number, 1 or more"),
        ({"batch_size_per_device": True}, "whole number, 1 or more"),
        ({"samples_per_epoch": 0, "epochs": 5}, "samples_per_epoch 0 must be a whole number"),
        ({"samples_per_epoch": 10, "epochs": 2.5}, "epochs 2.5 must be a whole number"),
        ({"samples_per_epoch": 10}, "epochs is missing"),
        ({"epochs": 5}, "samples_per_epoch is missing"),
    ],
)
def test_what_cannot_be_meant_is_refused(changes: dict[str, object], message: str):
    with pytest.raises(UsageError, match=message):
        case(**changes)


def test_a_training_is_epochs_of_samples_and_no_part_of_the_id():
    assert case().training_samples is None
    long = case(samples_per_epoch=234_619, epochs=50)
    assert long.training_samples == 11_730_950
    assert long.id == case().id


def test_the_marker_takes_the_length_of_a_training():
    (made,) = cases_of(
        ["mymodel:build"],
        {"layout": "1n1g", "batch_size_per_device": 4, "samples_per_epoch": 100, "epochs": 3},
        function="test_net",
    )
    assert made.training_samples == 300


@pytest.mark.parametrize(
    "text", ["tsm-torch-amp-bs16-1n8g", "tsm.tiny-torch-bf16-bs2-1n2c", "a_1-b-pure_fp16-bs4-4n8g"]
)
def test_an_id_is_taken_apart(text: str):
    parts = CaseId.parse(text)
    suite = parts.suite if parts.size == "full" else f"{parts.suite}.{parts.size}"
    again = f"{suite}-{parts.framework}-{parts.precision}-bs{parts.batch_size_per_device}"
    assert f"{again}-{parts.layout}" == text


def test_the_parts_of_an_id_are_those_of_the_case():
    tiny = case(size="tiny", precision="pure_fp16", layout=Layout.parse("2n8g"))
    assert CaseId.parse(tiny.id) == CaseId.of(tiny)


@pytest.mark.parametrize("text", ["", "tsm", "tsm-torch-amp-16-1n8g", "tsm-torch-amp-bs16-8g"])
def test_what_is_no_id(text: str):
    with pytest.raises(UsageError, match=r"not a case id|unknown layout"):
        CaseId.parse(text)


@pytest.mark.parametrize(
    "text", ["1n0g", "0n1g", "8g", "1n8", "1n8x", "", "-1n8g", "1n8g ", "1N8G"]
)
def test_unknown_layouts(text: str):
    with pytest.raises(UsageError, match="layout"):
        Layout.parse(text)


def test_layout_counts_ranks():
    layout = Layout.parse("4n8g")
    assert (layout.world_size, str(layout), str(layout.one_device())) == (32, "4n8g", "1n1g")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"warmup": 150}, "not below the 150 iterations"),
        ({"warmup": 1}, "2 or more"),
        ({"runs": 0}, "1 or more"),
        ({"max_runs": 3}, "below runs 5"),
        ({"timeout_s": 0.0}, "more than 0"),
        ({"timeout_s": float("inf")}, "more than 0 seconds, and an end"),
        ({"warmup_s": -1.0}, "0 or more seconds"),
        ({"warmup_s": 1800.0}, "fewer than the timeout of 1800 s"),
        ({"warmup_s": "10"}, "give a number of seconds"),
    ],
)
def test_protocols_that_measure_nothing(changes: dict[str, Any], message: str):
    with pytest.raises(UsageError, match=message):
        Protocol(**changes)


@pytest.mark.parametrize(
    ("text", "share"), [("3%", 0.03), ("0.03", 0.03), ("0", 0.0), ("150%", 1.5)]
)
def test_shares(text: str, share: float):
    assert parse_share(text, what="x") == pytest.approx(share)


@pytest.mark.parametrize("text", ["5", "1", "abc", "nan", "inf", "-3%", "", "%"])
def test_what_is_no_share(text: str):
    with pytest.raises(UsageError, match="tolerance"):
        parse_share(text, what="tolerance")
