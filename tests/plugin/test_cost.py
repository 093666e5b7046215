"""``--dlperf-cost``: a step is traced without devices, and compared exactly."""

from __future__ import annotations

import json
import os
import textwrap
import xml.etree.ElementTree as ElementTree

import pytest

from pytest_dlperf.store.baseline import cost_file
from pytest_dlperf.store.baseline.cost_file import StoredCost
from tests.helpers.costs import cost_record
from tests.helpers.fake_repository import git
from tests.helpers.fake_suite import FAKES, Suite

pytestmark = pytest.mark.slow  # many sessions; .ci/run has them

TEST = """
@pytest.mark.dlperf("{workload}:build", framework={framework}, layout=["1n1c", "1n8g"],
                    batch_size_per_device=4, timeout_s={timeout_s})
def test_{name}(dlperf):
    dlperf.run()
"""
ONE = "net-torch-fp32-bs4-1n8g"
STORED = f"baselines/cost/net/{ONE}.cost.json"


@pytest.fixture
def traced(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> Suite:
    """Return a project whose traces write what its ``w.py`` says."""
    # Outside of the project, whose folders are others in a tree of another commit
    path = os.pathsep.join([str(FAKES / "trace"), os.environ["PYTHONPATH"]])
    monkeypatch.setenv("PYTHONPATH", path)
    (suite.path / "record.json").write_text(json.dumps(cost_record()), encoding="utf-8")
    write_tests(suite, perf_test("net", "w"))
    workload(suite)
    return suite


def perf_test(name: str, workload: str, framework: str = '"torch"', timeout_s: float = 60) -> str:
    return TEST.format(name=name, workload=workload, framework=framework, timeout_s=timeout_s)


def write_tests(suite: Suite, *tests: str) -> None:
    suite.write("\n".join(["import pytest", *tests]))


def workload(suite: Suite, change: str = "", rest: str = "", name: str = "w") -> None:
    """Write a workload whose record is changed by the statements of ``change``."""
    text = f"""
    import json
    from pathlib import Path

    {rest or "exit_code = 0"}

    def record(world_size):
        record = json.loads(Path(r"{suite.path}/record.json").read_text())
        record["world_size"] = world_size
        stage = record["stages"][0]
        {change or "pass"}
        return record
    """
    (suite.path / f"{name}.py").write_text(textwrap.dedent(text), encoding="utf-8")


MORE = (
    'stage["operators"][1]["calls"] += 32; stage["operators"][1]["flops"] += 64_000_000_000; '
    'stage["flops"]["bfloat16"] += 64_000_000_000; stage["launches"] += 32'
)


def test_a_cost_is_stored_and_a_higher_one_is_found_in_every_report(traced: Suite):
    result, first = traced.outcomes("--dlperf-cost", "--update-baselines")
    assert result.ret == 0
    assert first.keys() == {ONE}
    assert (first[ONE]["judgement"]["verdict"], first[ONE]["update"]) == ("passed", "created")
    text = (traced.path / STORED).read_text(encoding="utf-8")
    assert "+cpu" not in text

    workload(traced, MORE)
    result, found = traced.outcomes(
        "--dlperf-cost", "--update-baselines", "--junitxml=junit.xml", "--dlperf-html=page.html",
        "--dlperf-md=comment.md",
    )  # fmt: skip
    assert result.ret == 1
    judgement = found[ONE]["judgement"]
    assert judgement["verdict"] == "regressed"
    sentence = "blocks.*.mlp: 3 to 4 mm a layer, +7.7 % FLOPs in bfloat16"
    assert judgement["reason"].startswith(sentence)
    assert "--dlperf-reason=TEXT" in judgement["reason"]
    assert found[ONE]["environment"]["machine_class"] == "cost"
    result.stdout.fnmatch_lines(["*blocks.?.mlp: 3 to 4 mm a layer*"])
    for name in ("junit.xml", "page.html", "comment.md"):
        plain = (traced.path / name).read_text(encoding="utf-8").replace("\\", "")
        assert "3 to 4 mm a layer" in plain, name
    assert list(ElementTree.parse(traced.path / "junit.xml").getroot().iter("failure"))
    assert (traced.path / STORED).read_text(encoding="utf-8") == text

    accepted, _ = traced.outcomes("--dlperf-cost", "--update-baselines", "--dlperf-reason=wider")
    assert accepted.ret == 0
    assert json.loads((traced.path / STORED).read_text(encoding="utf-8"))["reason"] == "wider"
    traced.run("--dlperf-cost", "--dlperf-list").stdout.fnmatch_lines([f"{ONE} *a cost *yes"])


def test_both_arms_are_traced_and_nothing_is_stored(traced: Suite):
    git(traced, "init", "-q", "-b", "main")
    git(traced, "add", "w.py", "test_net.py")
    git(traced, "commit", "-q", "-m", "before")
    workload(traced, MORE)
    result, found = traced.outcomes("--dlperf-cost", "--dlperf-against=main")
    assert result.ret == 1
    judgement = found[ONE]["judgement"]
    assert judgement["verdict"] == "regressed"
    assert "accept" not in judgement["reason"]
    assert found[ONE]["against"]["name"] == "main"
    # A trace does not say what else the other arm has, so that nothing looks as if it changed
    assert found[ONE]["against"]["software"] == {}
    assert not (traced.path / "baselines").exists()


#: Cases that cannot be compared: what changes the record, what the workload does beside, the
#: verdict, and words of its reason.
FAILED = {
    "problem": (
        'record = {"format": 1, "problem": "w.py:3: the loss is read"}', "", "error",
        "it cannot be traced: w.py:3: the loss is read",
    ),
    "broken": ("", "exit_code = 3", "error", "its trace wrote no cost (exit status 3)"),
    "slow": ("", "sleep_s = 60", "error", "ended after 2 s at step 1 of 2"),
    "damaged": ("del stage['memory']", "", "error", "stages[0].memory: missing"),
    "newer": (
        MORE, "", "incomparable",
        "torch 2.12.1 then, torch 2.13.0 now",
    ),
    "keras": (
        "", "", "not-run", "a step of tensorflow cannot be traced; traced are those of ",
    ),
}  # fmt: skip


def test_what_cannot_be_compared_says_why(traced: Suite):
    for name, (change, rest, _, _) in FAILED.items():
        workload(traced, change, rest, name=f"w_{name}")
    write_tests(
        traced,
        *(
            perf_test(
                name, f"w_{name}", '"tensorflow"' if name == "keras" else '"torch"',
                timeout_s=2 if name == "slow" else 60,
            )
            for name in FAILED
        ),
    )  # fmt: skip
    stored = StoredCost(record=cost_record(framework_version="2.12.1"), case_version=1)
    case_id = "newer-torch-fp32-bs4-2n8g"
    cost_file.write(traced.path / "baselines", "newer", case_id, stored)
    _, found = traced.outcomes("--dlperf-cost", "--gpus=16")
    by_suite = {outcome["case"]["suite"]: outcome for outcome in found.values()}
    assert by_suite.keys() == FAILED.keys()
    assert {outcome["case"]["layout"] for outcome in found.values()} == {"2n8g"}
    for name, (_, _, verdict, words) in FAILED.items():
        judgement = by_suite[name]["judgement"]
        assert judgement["verdict"] == verdict, name
        assert words in judgement["reason"], name
