"""What is said of the tries of ``explain_study.py``: each judged, and a table of all."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, Final

from pytest_dlperf.core.verdict import Comparison
from pytest_dlperf.judge.explain.attribution import attribute
from pytest_dlperf.judge.explain.sentences import stated_ms

#: The part that each kind makes longer, of two ranks on CPUs.
PART: Final = {
    "matrix-product": "compute",
    "sleep": "Python and launches",
    "slow-data": "waiting for data",
    "small-bucket": "exposed communication",
    "no-grad-dropped": "compute",
    "graph-break": "compute",
    "growing-allocation": "compute",
}
#: And of one rank on a GPU.
PART_ON_GPU: Final = {
    "matrix-product": "compute",
    "sleep": "Python and launches",
    "slow-data": "waiting for data",
    "host-wait": "host waits",
    "pageable-copy": "exposed copies",
    "no-grad-dropped": "compute",
    "growing-allocation": "compute",
}
NOTHING: Final = "nothing"
#: Nothing is planted in the training of a kind that is another one.
NOTHING_OF: Final = f"{NOTHING}-of-"
#: Of the milliseconds that the stopwatch read.
_WITHIN: Final = 0.20


def judged(line: dict[str, Any]) -> dict[str, Any]:
    """Return what the attribution says of a try, and what the stopwatch read."""
    before, now = (
        [
            {int(rank): profile for rank, profile in launch["profile"].items()}
            for launch in line[side]
        ]
        for side in ("before", "now")
    )
    speeds = [[launch["iterations_per_s"] for launch in line[side]] for side in ("before", "now")]
    ratios = [new / old - 1 for old in speeds[0] for new in speeds[1]]
    change = statistics.fmean(speeds[1]) / statistics.fmean(speeds[0]) - 1
    explanation = attribute(
        before, now, Comparison(change=change, interval=(min(ratios), max(ratios)))
    )
    planted_ms = [
        1000
        * statistics.fmean(launch["planted_s"][str(explanation.rank)] for launch in line[side])
        for side in ("before", "now")
    ]
    return {
        **{name: line[name] for name in ("kind", "seconds", "load", "launched_again")},
        "device": line.get("device", "cpu"),
        "planted_ms": planted_ms[1] - planted_ms[0],
        "before_ms": explanation.before_ms,
        "after_ms": explanation.after_ms,
        "agrees": explanation.agrees,
        "parts": {part.part: (stated_ms(part), part.named) for part in explanation.parts},
        "operators": [
            [
                operator.path,
                operator.operator,
                operator.part,
                operator.difference_ms,
                operator.after_calls,
            ]
            for operator in explanation.operators
            if operator.named
        ],
        "memory": [
            [place.place, (place.before_bytes or 0) / 1e6, place.after_bytes / 1e6]
            for place in explanation.memory
            if place.named
        ],
        "sentence": explanation.sentence,
    }


def is_unchanged(kind: str) -> bool:
    """Return whether nothing is planted in tries of a kind."""
    return kind == NOTHING or kind.startswith(NOTHING_OF)


def part_of(line: dict[str, Any]) -> str:
    """Return the part that the kind of a try makes longer."""
    parts = PART_ON_GPU if line.get("device") == "gpu" else PART
    return parts[line["kind"]]


def is_hit(line: dict[str, Any]) -> bool:
    """Return whether the part of a try's kind is named, with the stopwatch's milliseconds."""
    found_ms, named = line["parts"].get(part_of(line), (0.0, False))
    planted_ms = line["planted_ms"]
    return bool(named) and abs(found_ms - planted_ms) <= _WITHIN * abs(planted_ms)


def names_nothing(line: dict[str, Any]) -> bool:
    """Return whether a try names neither a part nor an operator."""
    return not any(named for _, named in line["parts"].values()) and not line["operators"]


def words(line: dict[str, Any]) -> str:
    """Return a try in one line."""
    if is_unchanged(line["kind"]):
        return f"{line['kind']}: {'nothing named' if names_nothing(line) else line['sentence']}"
    found_ms, named = line["parts"].get(part_of(line), (0.0, False))
    return (
        f"{line['kind']}: {'hit' if is_hit(line) else 'MISS'} stopwatch "
        f"{line['planted_ms']:.1f} ms, {part_of(line)} {found_ms:.1f}"
        f"{'' if named else ' not named'} | {line['sentence']} ({line['seconds']} s)"
    )


def table(tries: Sequence[dict[str, Any]]) -> str:
    """Return the table of all tries."""
    rows = [
        "| planted | tries | part named | within 20 % | both | agrees | stopwatch ms | part ms |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for kind in dict.fromkeys([*PART, *PART_ON_GPU]):
        if not (lines := [line for line in tries if line["kind"] == kind]):
            continue
        cells = [line["parts"].get(part_of(line), (0.0, False)) for line in lines]
        within = sum(
            abs(ms - line["planted_ms"]) <= _WITHIN * abs(line["planted_ms"])
            for line, (ms, _) in zip(lines, cells, strict=True)
        )
        rows.append(
            f"| {kind} | {len(lines)} | {sum(bool(named) for _, named in cells)} | {within} | "
            f"{sum(map(is_hit, lines))} | {sum(bool(line['agrees']) for line in lines)} | "
            f"{statistics.median(line['planted_ms'] for line in lines):.1f} | "
            f"{statistics.median(ms for ms, _ in cells):.1f} |"
        )
    unchanged = [line for line in tries if is_unchanged(line["kind"])]
    named = sum(not names_nothing(line) for line in unchanged)
    rows.append(f"\nunchanged: a row was named in {named} of {len(unchanged)} tries")
    return "\n".join(rows)
