"""Axes of a user's own: lists of options, and pytest's parametrize beside the marker."""

from __future__ import annotations

import json

import pytest

from tests.helpers.fake_suite import Suite

OPTIONS = """
import pytest

@pytest.mark.dlperf("w:build", launcher="torchrun", layout="1n1c", batch_size_per_device=4,
    options={"seq": [64, 128], "attn": ["flash", "math"], "compile": [False, True]})
def test_net(dlperf):
    dlperf.run()
"""
PARAMETRIZED = """
import pytest

@pytest.mark.parametrize("tp", [1, 2])
@pytest.mark.parametrize(("name", "thing"), [("a/b", None), pytest.param("b", object(), id="B")])
@pytest.mark.dlperf("w:build", launcher="torchrun", layout="1n1c", batch_size_per_device=4,
    precision=["fp32", "bf16"], options={"tp": 0, "depth": 3})
def test_net(dlperf, tp, name, thing):
    outcome = dlperf.run()
    assert dict(outcome.case.options) == {"tp": tp, "depth": 3, "name": name}
"""


def collected(suite: Suite, *arguments: str) -> list[str]:
    listing = suite.path / "cases.json"
    suite.run("--dlperf-list", f"--dlperf-json={listing}", *arguments)
    return [case["id"] for case in json.loads(listing.read_text(encoding="utf-8"))["cases"]]


@pytest.mark.slow
def test_two_by_two_by_two_options_are_eight_baselines(suite: Suite):
    suite.write(OPTIONS)
    result = suite.run("--update-baselines", "--dlperf-runs=1", "--dlperf-max-runs=1")
    assert result.ret == 0
    stored = suite.baselines()
    assert len(stored) == 8
    assert "net-torch-fp32-bs4-seq64-attn_flash-1n1c" in stored
    last = stored["net-torch-fp32-bs4-seq128-attn_math-compile-1n1c"]
    assert last["conditions"]["options"] == {"attn": "math", "compile": True, "seq": 128}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "count"),
    [("seq64", 4), ("seq64 and not compile", 2), ("attn_math and compile", 2), ("seq", 8)],
)
def test_words_of_an_id_select(suite: Suite, words: str, count: int):
    suite.write(OPTIONS)
    result = suite.run("--collect-only", "-q", "-k", words)
    assert sum("::test_net[" in line for line in result.outlines) == count


@pytest.mark.slow
def test_parametrize_beside_the_marker(suite: Suite):
    suite.write(PARAMETRIZED)
    _, outcomes = suite.outcomes("--dlperf-runs=1", "--dlperf-max-runs=1", "-k", "fp32")
    assert set(outcomes) == {
        "net-torch-fp32-bs4-a_b-None-1-1n1c",
        "net-torch-fp32-bs4-a_b-None-2-1n1c",
        "net-torch-fp32-bs4-B-1-1n1c",
        "net-torch-fp32-bs4-B-2-1n1c",
    }
    assert {o["judgement"]["verdict"] for o in outcomes.values()} == {"no-baseline"}
    nodes = {outcome["node_id"] for outcome in outcomes.values()}
    assert len(nodes) == 4


@pytest.mark.nightly  # the gate has its main way
def test_parametrized_numbers_are_words_and_options(suite: Suite):
    suite.write(PARAMETRIZED.replace('@pytest.mark.parametrize(("name', '# ("name').replace(
        ", name, thing", "").replace(', "name": name', ""))  # fmt: skip
    log = suite.path / "launches"
    suite.env(FAKE_LOG=log)
    few = ("--dlperf-runs=1", "--dlperf-max-runs=1", "--update-baselines")
    assert suite.run(*few, "-k", "tp2 and fp32").ret == 0
    assert set(suite.baselines()) == {"net-torch-fp32-bs4-tp2-1n1c"}
    assert suite.run(*few, "test_net.py::test_net[net-torch-bf16-bs4-1n1c-1]").ret == 0
    assert "net-torch-bf16-bs4-tp1-1n1c" in suite.baselines()
    assert len(log.read_text(encoding="utf-8").splitlines()) == 2


@pytest.mark.slow
def test_an_option_that_is_a_list_and_parametrized_is_a_plain_error(suite: Suite):
    suite.write(PARAMETRIZED.replace('"tp": 0', '"tp": [1, 2]'))
    result = suite.run()
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*option tp is a list in the marker, and parametrized as well*"])


@pytest.mark.slow
def test_one_work_for_parametrized_numbers_is_an_error(suite: Suite):
    suite.write(PARAMETRIZED.replace('"depth": 3}', '"depth": 3}, unit="tokens", work=256'))
    _, outcomes = suite.outcomes("--dlperf-runs=1", "-k", "fp32 and B")
    assert {o["judgement"]["verdict"] for o in outcomes.values()} == {"error"}
    for outcome in outcomes.values():
        assert "parametrized with numbers, by which the work may" in outcome["judgement"]["reason"]


@pytest.mark.slow
def test_ids_that_become_one_are_a_plain_error(suite: Suite):
    suite.write(PARAMETRIZED.replace('id="B"', 'id="a b-None"'))
    result = suite.run("-k", "fp32")
    assert result.ret != 0
    result.stderr.fnmatch_lines(["*case id net-torch-fp32-bs4-a_b-None-1-1n1c is declared twice*"])


@pytest.mark.slow
def test_a_report_has_columns_by_an_axis(suite: Suite):
    suite.write(OPTIONS)
    suite.outcomes("--dlperf-runs=1", "--dlperf-max-runs=1", "-k", "attn_flash")
    from pytest_dlperf.core.baseline import Baseline
    from pytest_dlperf.report import json_
    from pytest_dlperf.report.comparison_document import compare

    published: list[Baseline] = []
    found = compare(json_.read(suite.path / suite.results), published, "seq")
    assert [(table.axes, table.columns) for table in found.tables] == [
        ("attn_flash", ("64", "128")),
        ("attn_flash-compile", ("64", "128")),
    ]
    for table in found.tables:
        [row] = table.rows
        assert all(cell.throughput for cell in row.cells)
