"""The table: every rule on every data set, as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from verdict_rules import ADAPTERS
from verdict_study.data import CASES
from verdict_study.trial import EQUAL_STORED, INTERLEAVED, STORED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from verdict_study.data import DataSet
    from verdict_study.tally import Rate, Tally
from verdict_study.trial import Margins

#: Tallies by rule and use; our own rules are their own use.
Results: TypeAlias = "Mapping[tuple[str, str], Tally]"
#: Iterations of a run, those of its warm-up included.
ITERATIONS: Final = 150
_FOUND: Final = (0.02, 0.03, 0.05)


def _percent(rate: Rate | None, *, interval: bool = False) -> str:
    if rate is None:
        return ""
    share, low, high = (100 * part for part in rate)
    digits = 2 if high < 0.1 else 1
    return f"{share:.1f} ({low:.1f} to {high:.{digits}f})" if interval else f"{share:.1f}"


def _row(rule: str, use: str, tally: Tally, margins: Margins) -> str:
    is_ours = use in {STORED, INTERLEAVED}
    name = f"**{rule}**" if is_ours else rule
    cells = [
        name,
        "screened" if is_ours else use,
        _percent(tally.rate(0.0, "regressed"), interval=True),
        _percent(tally.suite_alarms(), interval=True),
        _percent(tally.rate(0.0, "inconclusive")) if is_ours else "never",
        *(_percent(tally.rate(truth, "regressed")) for truth in _FOUND),
        *(
            _percent(tally.rate(times_tolerance(margins, times), "passed", "improved"))
            for times in (1.0, 1.5)
        ),
        f"{ITERATIONS * tally.median_runs():.0f} / {ITERATIONS * tally.mean_runs():.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def times_tolerance(margins: Margins, times: float) -> float:
    """Return the slowdown that is so many times the tolerance."""
    return round(times * margins.tolerance, 6)


def _section(data: DataSet, results: Results, margins: Margins) -> list[str]:
    stored, pairs = results[STORED, STORED], results[INTERLEAVED, INTERLEAVED]
    peers = [tally for (_, use), tally in results.items() if use == EQUAL_STORED]
    suites = f"{stored.suites} unchanged suites for our rules"
    suites += f" and {stored.count(data.truths[-1]) // CASES} of each slowdown"
    if peers:
        suites += f"; {peers[0].suites} of each for peers"
    equal = (
        f"Equal cost: {round(stored.mean_runs())} runs a side against the stored session, "
        f"{round(pairs.mean_runs() / 2)} side by side."
    )
    head = [
        "rule", "used", "unchanged: cases flagged %", "suites with a false alarm %",
        "unchanged: inconclusive %", *(f"{truth:.0%} found %" for truth in _FOUND),
        "not failed at 1.0x tolerance %", "at 1.5x %",
        "iterations of an unchanged case: median / mean",
    ]  # fmt: skip
    rows = [_row(rule, use, tally, margins) for (rule, use), tally in results.items()]
    return [
        f"## {data.name}",
        f"{data.title[0].upper()}{data.title[1:]}. {suites}. {equal}",
        "",
        f"| {' | '.join(head)} |",
        f"|{'---|' * len(head)}",
        *rows,
        "",
    ]


def markdown(
    sets: Sequence[DataSet],
    results: Mapping[str, Results],
    margins: Margins,
    missing: Mapping[str, str],
    absent: Path | None,
    seed: int,
) -> str:
    """Return the whole table, and what is not in it and why."""
    lines = [
        "# Verdicts: our rule and those of peers",
        f"Tolerance {margins.tolerance:.1%}, min effect {margins.min_effect:.1%}, alpha "
        f"{margins.alpha:.1%} of a suite of 24 cases, seed {seed}. All shares in per cent; in "
        "brackets the 95 % interval (Clopper and Pearson). `usual`: as users of the tool do; "
        "`equal cost`: with as many runs as ours took on average; `side by side`: both sides in "
        "one session. Peers have no `inconclusive`: what they do not flag has not failed. Ours "
        "passes only what it certified, and the share that is neither is `inconclusive`. "
        "Iterations are those launched in the session on trial (150 a run, both arms of pairs).",
        "",
    ]
    for data in sets:
        lines += _section(data, results[data.name], margins)
    for distribution in sorted(set(ADAPTERS.values())):
        if distribution in missing:
            lines.append(f"**{distribution} was not called**: {missing[distribution]}")
    if absent is not None:
        lines.append(
            f"**Recorded data and published reports are left out**: {absent} is not there; set "
            "DLPERF_SHARED to the folder that holds `noise`."
        )
    return "\n".join(lines) + "\n"
