from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_dlperf.cases.marker import cases_of, expand
from pytest_dlperf.cases.selection import (
    CaseRequest,
    Machine,
    fits,
    layout_of,
    select,
    without_bf16,
)
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.option_names import command_options

LAPTOP = Machine(gpus=0, gpu_problem="", cores=4)
NODE = Machine(gpus=8, gpu_problem="", cores=48, gpus_per_node=8)
BROKEN = Machine(gpus=0, gpu_problem="no driver", cores=4)

_COMMON = {"suite": "tsm", "workload": "m:build", "batch_size_per_device": 16}
SUITE = (
    *expand(**_COMMON, precision=["fp32", "amp"], layout=["1n1g", "1n8g", "4n8g"]),
    *expand(**_COMMON, size="tiny", precision=["fp32", "bf16"], layout=["1n1c", "1n2c"]),
    *expand(**_COMMON, size="tiny", precision=["fp32", "amp"], layout=["1n1g", "1n2g"]),
)
OWN = expand(**_COMMON, layout=["1n1g", "1n8g"])


def chosen(declared, asked: CaseRequest, machine: Machine) -> list[str]:
    return [s.case.id for s in select(declared, asked, machine) if not s.left_out]


def test_a_laptop_runs_tiny_cases_on_cpu_processes():
    assert chosen(SUITE, CaseRequest(), LAPTOP) == [
        "tsm.tiny-torch-fp32-bs16-1n1c",
        "tsm.tiny-torch-fp32-bs16-1n2c",
        "tsm.tiny-torch-bf16-bs16-1n1c",
        "tsm.tiny-torch-bf16-bs16-1n2c",
    ]


def test_a_node_runs_full_cases_that_fit():
    assert chosen(SUITE, CaseRequest(), NODE) == [
        "tsm-torch-fp32-bs16-1n1g",
        "tsm-torch-fp32-bs16-1n8g",
        "tsm-torch-amp-bs16-1n1g",
        "tsm-torch-amp-bs16-1n8g",
    ]
    left = {s.case.id: s.left_out for s in select(SUITE, CaseRequest(), NODE) if s.left_out}
    assert "nodes" in left["tsm-torch-amp-bs16-4n8g"]


def test_a_node_started_by_hand_runs_the_layouts_that_it_belongs_to():
    by_rank = {
        rank: chosen(OWN, CaseRequest(gpus=(8, 16, 32)), replace(NODE, node_rank=rank))
        for rank in (0, 1, 2)
    }
    layouts = {rank: [case.rpartition("-")[2] for case in ids] for rank, ids in by_rank.items()}
    assert layouts == {0: ["1n8g", "2n8g", "4n8g"], 1: ["2n8g", "4n8g"], 2: ["4n8g"]}
    assert "tsm-torch-amp-bs16-4n8g" in chosen(SUITE, CaseRequest(), replace(NODE, node_rank=3))
    left = {
        s.left_out for s in select(SUITE, CaseRequest(), replace(NODE, node_rank=4)) if s.left_out
    }
    assert "4n8g needs nodes 0 to 3; this is node 4" in left


def test_a_node_part_needs_the_devices_of_a_node():
    small = replace(NODE, gpus=4, node_rank=0)
    assert fits(layout_of(16, "gpu", NODE), small) == (
        "2n8g needs 8 GPUs, CUDA_VISIBLE_DEVICES shows 4 of this machine's 8"
    )
    whole = replace(small, gpus_per_node=4)
    assert fits(layout_of(16, "gpu", NODE), whole) == "2n8g needs 8 GPUs, this machine has 4"


def test_hosts_are_advised_to_who_can_name_them():
    here = replace(NODE, nodes=1)
    needs = "2n8g needs 2 nodes, and this session has this host only"
    advice = "; name the nodes with --dlperf-hosts=n1:8,n2:8"
    assert fits(layout_of(16, "gpu", NODE), here) == needs + advice
    assert fits(layout_of(16, "gpu", NODE), here, command_options(frozenset({"--gpus"}))) == needs


def test_counts_replace_the_layout_axis():
    assert chosen(SUITE, CaseRequest(gpus=(2, 32)), NODE) == [
        "tsm-torch-fp32-bs16-1n2g",
        "tsm-torch-fp32-bs16-4n8g",
        "tsm-torch-amp-bs16-1n2g",
        "tsm-torch-amp-bs16-4n8g",
    ]


def test_cpus_on_a_node_with_gpus():
    assert chosen(SUITE, CaseRequest(cpus=(3,)), NODE) == [
        "tsm.tiny-torch-fp32-bs16-1n3c",
        "tsm.tiny-torch-bf16-bs16-1n3c",
    ]


def test_each_rank_has_a_fixed_share_of_the_cores_at_every_layout():
    by_id = {s.case.id: s.case for s in select(SUITE, CaseRequest(cpus=(1, 4)), NODE)}
    assert {c.cpu_ranks_max for i, c in by_id.items() if i.endswith("c")} >= {4}
    assert by_id["tsm.tiny-torch-fp32-bs16-1n1c"].cpu_ranks_max == 4


@pytest.mark.parametrize(
    ("asked", "machine", "part"),
    [
        (CaseRequest(gpus=(16,)), NODE, "2 nodes"),
        (
            CaseRequest(gpus=(8,)),
            Machine(gpus=4, gpu_problem="", cores=8, gpus_per_node=4),
            "8 GPUs",
        ),
        (CaseRequest(gpus=(1,)), LAPTOP, "0"),
        (CaseRequest(gpus=(1,)), BROKEN, "no driver"),
        (CaseRequest(cpus=(5,)), LAPTOP, "5 cores"),
        (CaseRequest(), BROKEN, "no driver"),
    ],
)
def test_what_was_asked_for_and_is_not_there_is_an_error(
    asked: CaseRequest, machine: Machine, part: str
):
    selected = [s for s in select(SUITE, asked, machine) if not s.left_out]
    assert selected
    assert all(part in s.error for s in selected)


def test_a_gpu_that_is_unusable_is_never_replaced_by_the_cpu():
    assert all(s.case.layout.device == "gpu" for s in select(OWN, CaseRequest(), BROKEN))


def test_a_test_of_one_size_is_not_deselected_for_its_size():
    own = expand(**_COMMON, layout=["1n1c"])
    assert chosen(own, CaseRequest(), LAPTOP) == ["tsm-torch-fp32-bs16-1n1c"]
    assert chosen(own, CaseRequest(size="tiny"), LAPTOP) == []
    assert chosen(OWN, CaseRequest(), LAPTOP) == []
    assert "--cpus=1" in select(OWN, CaseRequest(), LAPTOP)[0].left_out
    assert chosen(OWN, CaseRequest(cpus=(1,)), LAPTOP) == ["tsm-torch-fp32-bs16-1n1c"]


def test_frameworks_are_chosen():
    both = (*OWN, *expand(**_COMMON, framework="paddle", layout="1n1g"))
    assert chosen(both, CaseRequest(frameworks=("paddle",)), NODE) == ["tsm-paddle-fp32-bs16-1n1g"]


def test_counts_that_make_no_layout():
    with pytest.raises(UsageError, match="multiple of 8"):
        layout_of(12, "gpu", NODE)


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {"layout": "1n1c", "batch_size_per_device": 1}, "workload is missing"),
        (("m:b",), {"layout": "1n1c"}, "batch_size_per_device is missing"),
        (("m:b",), {"layout": "1n9z", "batch_size_per_device": 1}, "unknown layout '1n9z'"),
        (("m:b",), {"layout": "1n1c", "batch_size_per_device": 1, "batchsize": 1}, "unknown key"),
        (("m:b",), {"layout": [], "batch_size_per_device": 1}, "empty list"),
        (("m:b", 3), {}, "one workload"),
        ((), {"cases": []}, "cases is empty"),
        ((), {"cases": ["tsm"]}, "expand"),
        (("m:b",), {"cases": SUITE}, "alone"),
        (("m:b",), {"layout": "1n1c", "batch_size_per_device": 1, "tolerance": "x"}, "tolerance"),
    ],
)
def test_markers_that_cannot_be_meant(args, kwargs, message: str):
    with pytest.raises(UsageError, match=message):
        cases_of(args, kwargs, function="test_x")


def test_the_suite_is_the_name_of_the_test():
    cases = cases_of(
        ("m:b",), {"layout": ["1n1g", "1n2g"], "batch_size_per_device": 4}, function="test_my"
    )
    assert [c.id for c in cases] == ["my-torch-fp32-bs4-1n1g", "my-torch-fp32-bs4-1n2g"]


def test_precisions_are_chosen():
    assert chosen(SUITE, CaseRequest(precisions=("amp", "bf16")), LAPTOP) == [
        "tsm.tiny-torch-bf16-bs16-1n1c",
        "tsm.tiny-torch-bf16-bs16-1n2c",
    ]
    left = {
        s.case.id: s.left_out for s in select(SUITE, CaseRequest(precisions=("bf16",)), LAPTOP)
    }
    assert left["tsm.tiny-torch-fp32-bs16-1n1c"] == "precision fp32 was not asked for"
    # A share of the cores is a condition: it is that of all declared layouts, as without a choice.
    [one, _] = [
        s for s in select(SUITE, CaseRequest(precisions=("bf16",)), LAPTOP) if not s.left_out
    ]
    assert one.case.cpu_ranks_max == 2


@pytest.mark.parametrize(
    ("precision", "layout", "has_bf16", "is_left_out"),
    [
        ("bf16", "1n2c", False, True),
        ("bf16", "1n2c", True, False),
        ("bf16", "1n2c", None, False),
        ("bf16", "2n2c", False, False),  # the other node was not asked
        ("bf16", "1n2g", False, False),
        ("fp32", "1n2c", False, False),
    ],
)
def test_bf16_is_left_out_where_the_cpu_is_known_to_imitate_it(
    precision: str, layout: str, has_bf16: bool | None, is_left_out: bool
):
    [case] = expand(**_COMMON, precision=precision, layout=layout)
    reason = without_bf16(case, replace(LAPTOP, cpu_has_bf16=has_bf16))
    assert bool(reason) is is_left_out
