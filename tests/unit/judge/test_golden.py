"""The judge says of recorded inputs what it said when they were recorded."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_dlperf.core.verdict import Verdict
from tests.golden.compare import compared
from tests.golden.differences import DIFFERENCES, Difference
from tests.golden.golden_file import Record, read, write
from tests.golden.roads import output_of
from tests.golden.table import counted

pytestmark = pytest.mark.once

_SESSIONS = set(map(str, Verdict)) - {str(Verdict.NOT_RUN)}
_COMPARED = {"passed", "improved", "regressed", "inconclusive"}
_KNOWN = {f"known: {state}" for state in ("known", "expired", "worse", "gone")}
_PAIRS = _SESSIONS - {"no-baseline"}
_STAGES = _PAIRS - {"error"}
#: The verdicts that each road can give.
VERDICTS = {
    "stored": _SESSIONS | {"raises CaseError"},
    "stored, cut short": {"regressed", "inconclusive"},
    "stored, known": {"passed", "improved", "regressed"} | _KNOWN,
    "pairs": _PAIRS | {"raises CaseError"},
    "pairs, cut short": {"regressed", "inconclusive"},
    "logs": _PAIRS | {"raises CaseError"},
    "numbers": _COMPARED | {"incomparable", "raises CaseError", "raises UsageError"},
    "pairs of numbers": _COMPARED | {"incomparable", "raises CaseError", "raises UsageError"},
    "leave one out": {
        "no alarm", "alarm: throughput", "alarm: speedup", "alarm: peak_memory",
        "alarm: compile_seconds", "alarm: recompiles",
    },
    "two stages: pairs": _PAIRS | {"known: known"},
    "two stages: packages": _PAIRS,
    "two stages: same code": {"passed"},
    "two stages: no pairs": _STAGES,
}  # fmt: skip


@pytest.fixture(scope="module")
def records() -> list[Record]:
    return list(read())


def test_every_judgement_is_the_recorded_one(records) -> None:
    report = compared(records)
    words = report.words(DIFFERENCES)
    print(words)  # noqa: T201
    assert not report.unexplained, words
    assert not report.idle(DIFFERENCES), f"delete differences that explain nothing: {words}"


def test_each_road_has_each_verdict_that_it_can_give(records) -> None:
    found = counted(records)
    assert set(found) == set(VERDICTS)
    for road, verdicts in VERDICTS.items():
        assert verdicts <= set(found[road]), road


def test_a_difference_needs_a_name_and_a_name_a_difference(records) -> None:
    record = next(one for one in records if one.output.get("verdict") == "regressed")
    other = {**record.output, "verdict": "passed", "reason": "it is as fast"}
    changed = replace(record, output=other)
    report = compared([record, changed], ())
    assert report.judgements == 2
    [words] = report.unexplained
    assert "\n  verdict\n    was passed\n    is  regressed" in words

    def rule(*fields: str, verdict: str = "passed") -> Difference:
        return Difference(
            name="slower",
            why="It is slower.",
            is_seen=lambda _, expected, actual: expected["verdict"] == verdict,
            fields=frozenset(fields),
        )

    half = compared([changed], [rule("verdict")])
    assert "\n  verdict\n" not in half.unexplained[0]
    assert "\n  reason\n" in half.unexplained[0]
    whole = [rule("verdict", "reason")]
    report = compared([record, changed], whole)
    assert (report.unexplained, report.idle(whole)) == ([], [])
    assert "1 differ by slower: It is slower." in report.words(whole)
    idle = [rule("verdict", "reason", verdict="error")]
    assert compared([record], idle).idle(idle) == ["slower"]


def test_numbers_may_differ_as_other_libraries_round(records) -> None:
    record = next(one for one in records if one.output.get("verdict") == "regressed")
    throughput = record.output["throughput"]
    for factor, count in ((1 + 1e-11, 0), (1 + 1e-6, 1)):
        moved = {**throughput, "change": throughput["change"] * factor}
        other = replace(record, output={**record.output, "throughput": moved})
        assert len(compared([other], ()).unexplained) == count


def test_the_file_has_each_part_once_and_the_same_bytes(records, tmp_path) -> None:
    few = records[::97]
    for name in ("one", "other"):
        write(tmp_path / name, few)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
    again = list(read(tmp_path / "one"))
    assert [one.given for one in again] == [one.given for one in few]
    assert [one.source for one in again] == [one.source for one in few]
    assert output_of(again[0].given).keys() == few[0].output.keys()
