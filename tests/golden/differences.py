"""Judgements that differ from the golden file, and why the new ones are right.

A rule names judgements that are meant to differ, and the fields that may. It is deleted when the
file is recorded again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tests.golden.golden_file import Record
from tests.golden.roads import Output, Stored, road_of


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """A difference that is right."""

    name: str
    #: A sentence.
    why: str
    #: Whether it is about a record, by what was expected, and what is said now: both judgements.
    is_seen: Callable[[Record, Output, Output], bool]
    #: What may differ: ``reason``, ``throughput``, ``throughput.sees``, ``metrics.anchor`` ...
    fields: frozenset[str]

    def applies(self, record: Record, was: Output, now: Output) -> bool:
        """Return whether it is about a record; errors and sessions left out have no words."""
        return "reason" in was and "reason" in now and self.is_seen(record, was, now)


#: What a clause may begin with that says of what it is.
_PREFIXES: Final = ("throughput: ", "the median iteration: ")
#: Clauses that say what to do: a sentence has one of them.
_REMEDIES: Final = ("find what changed", "look for a memory leak", "find what makes the devices")


def _clauses(details: Sequence[str]) -> set[str]:
    """Return what details say, without what to do, in any order."""
    clauses = set()
    for clause in "; ".join(details).split("; "):
        prefix = next((prefix for prefix in _PREFIXES if clause.startswith(prefix)), "")
        if not clause.startswith(_REMEDIES):
            clauses.add(clause.removeprefix(prefix))
    return clauses


def _says_the_same(record: Record, was: Output, now: Output) -> bool:
    return _clauses(was["details"]) == _clauses(now["details"])


def _says_more(record: Record, was: Output, now: Output) -> bool:
    return _clauses(was["details"]) < _clauses(now["details"])


def _says_what_is_unsteady(record: Record, was: Output, now: Output) -> bool:
    before, _, remedy = now["reason"].rpartition("look at the records of its pairs")
    return was["reason"] == before.rstrip("\n; ") and remedy == ", and measure again"


def _names_the_fixed_number(record: Record, was: Output, now: Output) -> bool:
    before, after = "--dlperf-max-runs=", "--dlperf-runs="
    return before in was["reason"] and was["reason"].replace(before, after) == now["reason"]


#: Metrics that cannot fail, or open, each case: how a first line names them.
_NAMED_FIRST: Final = ("peak memory grew", "speedup fell", "CPU seconds grew")


def _names_what_decided(record: Record, was: Output, now: Output) -> bool:
    is_named = any(name in was["reason"] for name in _NAMED_FIRST)
    return was["verdict"] == now["verdict"] and was["reason"] != now["reason"] and is_named


def _says_links_of_memory(record: Record, was: Output, now: Output) -> bool:
    before, after = "\n".join(was["details"]), "\n".join(now["details"])
    links = "nothing else of the machine moved: look at the links"
    return links in before and "speedup fell" not in before and "itself is" in after


def _has_no_run(record: Record, was: Output, now: Output) -> bool:
    if not isinstance(record.given, Stored) or record.given.baseline is None:
        return False
    return not any(session.runs for session in record.given.baseline.level)


def _kept_no_fact(record: Record, was: Output, now: Output) -> bool:
    gone = {
        name: comparison
        for name, comparison in was["metrics"].items()
        if name not in now["metrics"]
    }
    return bool(gone) and all(comparison["verdict"] != "regressed" for comparison in gone.values())


def _is_of_numbers(record: Record, was: Output, now: Output) -> bool:
    is_other_unit = was.get("verdict") == now.get("verdict") == "incomparable"
    return road_of(record.given) in {"numbers", "pairs of numbers"} and is_other_unit


def _is_refused_without_time(record: Record, was: Output, now: Output) -> bool:
    refused = now["verdict"] in {"incomparable", "unsteady"}
    is_short = road_of(record.given).endswith("cut short")
    return is_short and was["verdict"] == "inconclusive" and refused


def _has_the_line(record: Record, was: Output, now: Output) -> bool:
    kept = [line for line in was["details"] if line not in now["details"]]
    return kept != [] and now["reason"] == "\n".join([was["reason"], *kept])


#: What was said of runs that others disturbed: pairs were in a detail alone.
_QUIET: Final = "others disturbed its runs; measure again when the machine is quiet"
_QUIET_OR_PAIRS: Final = (
    "; measure again when the machine is quiet, or compare two versions on this machine as it is "
    "with --dlperf-against=REF"
)
_PAIRS_OR_QUIET: Final = (
    "others disturbed its runs; compare in pairs with --dlperf-against=main, or measure again "
    "when the machine is quiet"
)


def _names_pairs_of_disturbed(record: Record, was: Output, now: Output) -> bool:
    def moved(text: str) -> str:
        return text.replace(_QUIET, _PAIRS_OR_QUIET).replace(_QUIET_OR_PAIRS, "")

    details = [moved(detail) for detail in was["details"]]
    return (moved(was["reason"]), details) == (now["reason"], now["details"])


DIFFERENCES: Final[tuple[Difference, ...]] = (
    Difference(
        name="pairs in the sentence of a disturbed case",
        why="Where others keep using the machine pairs decide: the sentence says so, once.",
        is_seen=_names_pairs_of_disturbed,
        fields=frozenset({"reason", "details"}),
    ),
    Difference(
        name="one remedy",
        why="A sentence says once what to do, in pairs without storing; its clauses are in the "
        "order of what decided, and the throughput is named wherever it does not lead.",
        is_seen=_says_the_same,
        fields=frozenset({"details"}),
    ),
    Difference(
        name="nothing left out",
        why="Every metric that got worse or is open is said, and the throughput beside a speedup "
        "that fell; each was left out in some combination.",
        is_seen=_says_more,
        fields=frozenset({"details"}),
    ),
    Difference(
        name="a fixed number of pairs",
        why="A protocol with a fixed number of pairs gets more of them by --dlperf-runs only.",
        is_seen=_names_the_fixed_number,
        fields=frozenset({"reason"}),
    ),
    Difference(
        name="what decided comes first",
        why="The first line named a metric that decides nothing there: an open peak memory, an "
        "excused speedup, or CPU seconds of a faster training.",
        is_seen=_names_what_decided,
        fields=frozenset({"reason"}),
    ),
    Difference(
        name="facts alone beside a refusal",
        why="Beside pairs that cannot be trusted only a metric that got worse is a fact; a peak "
        "memory that passed or is open was kept there, and nowhere else.",
        is_seen=_kept_no_fact,
        fields=frozenset({"metrics"}),
    ),
    Difference(
        name="a refused rate has its verdict",
        why="The throughput of plain numbers in two units says incomparable, as all others do.",
        is_seen=_is_of_numbers,
        fields=frozenset({"throughput.verdict"}),
    ),
    Difference(
        name="an unconfirmed fact is open",
        why="Where the machine moved or runs drift, a memory that no fresh run confirmed is open, "
        "and the refusal is stronger; both are said.",
        is_seen=_is_refused_without_time,
        fields=frozenset({"verdict", "reason", "details", "more runs"}),
    ),
    Difference(
        name="the budget in the reason",
        why="That the budget was spent is a line of the reason, also where links became slower.",
        is_seen=_has_the_line,
        fields=frozenset({"reason", "details"}),
    ),
    Difference(
        name="links of a speedup",
        why="Links explain a speedup; beside a memory that grew the refusal of the rate is said.",
        is_seen=_says_links_of_memory,
        fields=frozenset({"details"}),
    ),
    Difference(
        name="what to do where pairs are unsteady",
        why="Two stages said that pairs were unsteady, and not what to do.",
        is_seen=_says_what_is_unsteady,
        fields=frozenset({"reason", "details"}),
    ),
    Difference(
        name="no pair with a session without runs",
        why="A level without a run is none: nothing was stored that pairs could confirm.",
        is_seen=_has_no_run,
        fields=frozenset({"pairs with the session of"}),
    ),
)
