"""Pairs of a real program whose log alone is read: its arms take turns by time."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers.fake_repository import WIDE, git
from tests.helpers.fake_suite import Suite

pytestmark = pytest.mark.slow  # whole sessions; .ci/run has them

ID = "net-none-fp32-bs8-1n1c"
PATTERN = r'pattern(r"train step:(?P<step>\d+) .*ips: (?P<rate>\S+) ", unit="clips")'
#: Of each commit; the lines are those of PaddleVideo as well.
TRAIN = """
import hashlib
import sys
import time

from amount import EVERY, HELD_BACK, STALL, WAIT_S, WORK

lines = []
begin = time.perf_counter()
for step in range(int(sys.argv[1])):
    for _ in range(WORK * (1 if step % 25 else 1 + STALL)):
        hashlib.sha256(bytes(50_000)).digest()
    time.sleep(0 if step % 25 else WAIT_S)
    if step % EVERY:
        continue
    now = time.perf_counter()
    cost, begin = (now - begin) / EVERY, now
    lines.append(
        f"[04/12 10:00:00] epoch:[  1/80 ] train step:{step:<4d} loss: 1.5 "
        f"lr: 0.02 batch_cost: {cost:.5f} sec, reader_cost: 0.00100 sec, "
        f"ips: {8 / cost:.5f} instance/sec."
    )
    if len(lines) > HELD_BACK:
        print("\\n".join(lines))
        lines = []
print("\\n".join(lines))
"""
USUAL = {"EVERY": 1, "HELD_BACK": 0, "STALL": 0, "WAIT_S": 0, "WORK": 100}


@pytest.fixture
def repository(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Suite:
    monkeypatch.setenv("DLPERF_RUNTIME_DIR", str(pytester.path / "runtime"))
    suite = Suite(pytester, monkeypatch)
    git(suite, "init", "-q", "-b", "main")
    (suite.path / ".git/info/exclude").write_text("runtime\nr.json\n")
    suite.write_file("train.py", TRAIN)
    return suite


def commit(suite: Suite, log_format: str, **amount: float) -> None:
    """Commit a program that does so much work in a step."""
    suite.write(
        "import pytest\nfrom pytest_dlperf import pattern\n"
        f'@pytest.mark.dlperf(command=["python", "train.py", "300"], {log_format} '
        'framework=None, layout="1n1c", batch_size_per_device=8, warmup=20, iterations=300)\n'
        "def test_net(dlperf):\n    dlperf.run()\n"
    )
    values = {**USUAL, **amount}
    suite.write_file("amount.py", "".join(f"{name} = {values[name]}\n" for name in values))
    git(suite, "add", "-A", ".")
    git(suite, "commit", "-q", "-m", "one")


def compared(suite: Suite, *options: str) -> dict[str, Any]:
    result, outcomes = suite.outcomes("--dlperf-against=HEAD~1", WIDE, *options)
    assert ID in outcomes, result.stdout.str()
    return outcomes[ID]  # type: ignore[no-any-return]


def notes(outcome: dict[str, Any]) -> dict[str, str]:
    return {p["code"]: p["message"] for p in outcome["measurement"]["problems"]}


@pytest.mark.nightly  # the gate has its main way
@pytest.mark.parametrize("log_format", [f"log_format={PATTERN},", ""], ids=["named", "known"])
def test_a_log_is_in_lock_step_and_shows_that_its_arm_does_twice_the_work(
    repository: Suite, log_format: str
):
    commit(repository, log_format, WORK=100)
    commit(repository, log_format, WORK=200)
    outcome = compared(repository)
    judgement = outcome["judgement"]
    assert judgement["verdict"] == "regressed"
    assert -0.6 < judgement["change"] < -0.35
    assert set(outcome["against"]["order"]) == {"both"}
    assert "pairs of runs in lock-step" in judgement["details"][0]
    assert "alternating" not in notes(outcome)
    assert "of 280 measured iterations do not count" in notes(outcome)["turns-by-time"]
    for run in (*outcome["measurement"]["runs"], *outcome["against"]["measurement"]["runs"]):
        assert len(run["turns"]) >= 4
        assert run["turns"][0] == 0
        assert len(run["step_seconds"]) < 280


@pytest.mark.nightly  # the gate has stalls in tests/unit/flow
@pytest.mark.parametrize(
    "amount",
    [{"STALL": 25}, {"WAIT_S": 0.15}],
    ids=["works", "waits"],
)
def test_an_arm_that_is_slower_by_stalls_alone_is_slower(
    repository: Suite, amount: dict[str, float]
):
    commit(repository, f"log_format={PATTERN},")
    commit(repository, f"log_format={PATTERN},", **amount)
    outcome = compared(repository)
    judgement = outcome["judgement"]
    assert judgement["verdict"] == "regressed"
    assert set(outcome["against"]["order"]) == {"both"}
    assert judgement["metrics"]["whole_window"]["verdict"] == "regressed"


@pytest.mark.parametrize(
    ("amount", "words"),
    [
        ({"EVERY": 50}, "records of measured iterations, too few for 4 turns of 7"),
        ({"HELD_BACK": 120}, "the times in its log have the other arm's turns in them"),
    ],
    ids=["few records", "held back"],
)
@pytest.mark.nightly  # the gate has its main way
def test_launches_alternate_where_a_log_does_not_show_turns(
    repository: Suite, amount: dict[str, int], words: str
):
    commit(repository, f"log_format={PATTERN},", **amount, WORK=200)
    commit(repository, f"log_format={PATTERN},", **amount, WORK=100)
    outcome = compared(repository, "--dlperf-runs=2", "--dlperf-max-runs=2")
    assert sorted(outcome["against"]["order"]) == ["before", "now"]
    assert words in notes(outcome)["alternating"]
    assert all(run["turns"] == [] for run in outcome["measurement"]["runs"])
    outcome = compared(repository, "--dlperf-pairs=lock-step")
    assert outcome["judgement"]["verdict"] == "error"
    assert words in outcome["judgement"]["reason"]


def test_the_arm_that_fails_is_named(repository: Suite):
    commit(repository, f"log_format={PATTERN},", WORK=-1)
    (repository.path / "amount.py").write_text("raise SystemExit(7)\n")
    git(repository, "add", "-A", ".")
    git(repository, "commit", "-q", "-m", "fails")
    commit(repository, f"log_format={PATTERN},")
    outcome = compared(repository)
    assert outcome["judgement"]["verdict"] == "error"
    assert "HEAD~1" in outcome["judgement"]["reason"]
    assert "exit" in outcome["judgement"]["reason"]
