"""One block for every environment, with the lines of the reports."""

from __future__ import annotations

from dataclasses import replace

from pytest_dlperf.core.verdict import Verdict
from pytest_dlperf.report.environment_section import environment_blocks
from tests.helpers.report_builders import ENVIRONMENT, case, environment, measured, unmeasured

TORCH, PADDLE = case("torch", "1n1g"), case("paddle", "1n1g")


def test_a_block_has_the_lines_of_the_reports():
    (block,) = environment_blocks([measured(TORCH, 55.0)])
    assert dict(block.facts) == {
        "OS": "CentOS release 6.3 (Final)",
        "GPU": "Tesla V100-SXM2-32GB * 8",
        "CPU": "Intel(R) Xeon(R) Gold 6271C CPU @ 2.60GHz * 48",
        "driver": "450.80.02",
        "memory": "502 GiB",
        "image": None,
        "framework": "torch 2.13.0",
        "CUDA": "11.0",
        "cuDNN": "8.0.4",
        "NCCL": "2.7.3",
    }
    assert list(block.facts)[:3] == ["OS", "GPU", "CPU"]
    assert dict(block.others) == {"python": "3.11.7"}


def test_environments_that_differ_are_listed_apart_and_equal_ones_once():
    second = replace(environment(), node="node2")
    blocks = environment_blocks(
        [
            measured(TORCH, 55.0, environment=second),
            measured(PADDLE, 80.0, environment=environment("paddle", "2.6.2")),
            measured(case("torch", "1n8g"), 385.0),
        ]
    )
    assert [block.facts["framework"] for block in blocks] == ["torch 2.13.0", "paddle 2.6.2"]
    assert blocks[0].nodes == ("node2", "node1")
    assert blocks[0].case_ids == ("tsm-torch-amp-bs16-1n1g", "tsm-torch-amp-bs16-1n8g")


def test_a_case_that_never_started_is_listed_with_the_environment_that_it_fits():
    lone = unmeasured(PADDLE, Verdict.NOT_RUN, "paddle is not installed")
    (block,) = environment_blocks([lone, measured(TORCH, 55.0)])
    assert block.facts["framework"] == "torch 2.13.0"
    assert len(block.case_ids) == 2
    other = replace(ENVIRONMENT, software={"driver": "470.83.01"})
    assert len(environment_blocks([replace(lone, environment=other), measured(TORCH, 55.0)])) == 2


def test_an_outcome_without_an_environment_has_no_block():
    assert environment_blocks([measured(TORCH, 55.0, environment=None)]) == ()
