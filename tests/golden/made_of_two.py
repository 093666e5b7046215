"""Makes inputs of what is gathered: budgets that cut short, known slowdowns, and two stages."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from pytest_dlperf.core.case import Known
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.verdict import GOOD, Verdict
from tests.golden.roads import Input, Pairs, Stored, TwoStages, judged

_SEED: Final = 43
#: How many are made of each: cut short, known, two stages.
_CUT, _KNOWN, _TWO = 600, 900, 1800
#: A known slowdown lasts until the day between these.
_UNTIL: Final = "2026-06-30"
_BEFORE, _AFTER = "2026-06-01", "2026-07-01"
_CHANGES: Final = (-0.005, -0.03, -0.08, -0.2, -0.5)
_ENVIRONMENTS: Final = (
    (),
    (),
    ("torch: 2.4.0, was 2.3.1",),
    ("torch: 2.4.0, was 2.3.1", "driver: 550, was 535", "node: n2, was n1"),
)
_UNKNOWN: Final = ("", "", "the stored session does not say with which packages it ran")
_MEASURED_BY: Final = ("", "--dlperf-confirm=packages")
_CUT_OFF: Final = frozenset({Verdict.REGRESSED, Verdict.INCONCLUSIVE})


def made_of(gathered: Sequence[tuple[str, Input]]) -> Iterator[tuple[str, Input]]:
    """Yield inputs made of those that are gathered, with their sources."""
    rng = random.Random(_SEED)
    shuffled = rng.sample(gathered, len(gathered))
    stored = _inputs_by_verdict([given for _, given in shuffled if isinstance(given, Stored)])
    pairs = _inputs_by_verdict([given for _, given in shuffled if isinstance(given, Pairs)])
    for _ in range(_CUT):
        verdicts = _CUT_OFF if rng.random() < 0.9 else GOOD
        of_kind = _any(rng, rng.choice((stored, pairs)), verdicts)
        yield "cut short", replace(of_kind, looked=rng.random() < 0.5)
    several = {
        Verdict.REGRESSED: [given for given in stored[Verdict.REGRESSED] if _is_several(given)]
    }
    for _ in range(_KNOWN):
        inputs = several if rng.random() < 0.4 else stored
        given = _any(rng, inputs, GOOD | {Verdict.REGRESSED})
        assert isinstance(given, Stored)
        yield "known", _with_slowdown(rng, given)
    for _ in range(_TWO):
        yield "two stages", _two(rng, stored, pairs)


def _inputs_by_verdict(inputs: Sequence[Stored | Pairs]) -> dict[Verdict, list[Stored | Pairs]]:
    """Return inputs by their verdict; not those that raise."""
    inputs_of: dict[Verdict, list[Stored | Pairs]] = {}
    for given in inputs:
        try:
            verdict = judged(given).verdict
        except CaseError:
            continue
        inputs_of.setdefault(verdict, []).append(given)
    return inputs_of


def _any(
    rng: random.Random,
    inputs: dict[Verdict, list[Stored | Pairs]],
    verdicts: frozenset[Verdict],
) -> Stored | Pairs:
    verdict = rng.choice(
        [verdict for verdict in Verdict if verdict in verdicts and verdict in inputs]
    )
    return rng.choice(inputs[verdict])


def _is_several(given: Stored | Pairs) -> bool:
    """Whether both the rate and another metric regressed."""
    judgement = judged(given)
    verdicts = [judgement.throughput.verdict, *(m.verdict for m in judgement.metrics.values())]
    return verdicts[0] is Verdict.REGRESSED and Verdict.REGRESSED in verdicts[1:]


def _with_slowdown(rng: random.Random, given: Stored) -> Stored:
    change = judged(given).throughput.change or 0.0
    share = round(change, 3) if change < -0.01 and rng.random() < 0.4 else rng.choice(_CHANGES)
    slowdown = Known(issue="#123", until=_UNTIL, change=share)
    if rng.random() < 0.03:
        return replace(given, case=replace(given.case, known=None), today=_BEFORE)
    case = given.case if given.case.known else replace(given.case, known=slowdown)
    return replace(given, case=case, today=rng.choice((_BEFORE, _BEFORE, _AFTER)))


def _two(
    rng: random.Random,
    stored: dict[Verdict, list[Stored | Pairs]],
    pairs: dict[Verdict, list[Stored | Pairs]],
) -> TwoStages:
    """Draw two stages; such as no session has, as an error and its pairs, are not drawn."""
    first = _any(rng, stored, frozenset(Verdict) - {Verdict.ERROR, Verdict.NO_BASELINE})
    assert isinstance(first, Stored)
    today = ""
    if rng.random() < 0.15:
        first, today = _with_slowdown(rng, first), _BEFORE
    how = rng.choice(("pairs", "pairs", "pairs", "pairs", "same code", "no pairs", "packages"))
    against = rng.choice(("1a2b3c4", "the anchor 1a2b3c4"))
    if how == "same code":
        return TwoStages(how="same code", stored=first, against=against, today=today)
    if how == "no pairs":
        why = "the stored session has no git commit; commit the code, and store a session of it"
        return TwoStages(how="no pairs", stored=first, changed=why, today=today)
    with_code = GOOD if how == "packages" else frozenset(Verdict)
    code = None if rng.random() < 0.2 else _any(rng, pairs, with_code)
    packages = _any(rng, pairs, frozenset(Verdict)) if how == "packages" else None
    assert code is None or isinstance(code, Pairs)
    assert packages is None or isinstance(packages, Pairs)
    return TwoStages(
        how="packages" if how == "packages" else "pairs",
        stored=first,
        code=code,
        packages=packages,
        against=against,
        environment=rng.choice(_ENVIRONMENTS),
        unknown=rng.choice(_UNKNOWN),
        measured_by=rng.choice(_MEASURED_BY),
        changed="torch 2.4.0, was 2.3.1" if packages else "",
        undo="pip install torch==2.3.1" if packages else "",
        today=today,
    )
