"""The first line of a verdict: what happened, by how much, and what to type, in 25 words.

What else the judge says of it is detail: spreads, what was left out, what more runs would do.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pytest_dlperf.core.metrics import words_of
from pytest_dlperf.core.protocol import Protocol
from pytest_dlperf.core.quantity import amount
from pytest_dlperf.core.verdict import GOOD, Comparison, Judgement, Verdict
from pytest_dlperf.judge import sentences

#: What a first line has at most.
WORDS: Final = 25
#: What to type where a slowdown is meant.
ACCEPT_IT: Final = f"accept it: {sentences.ACCEPT}"
_COMPARE: Final = "compare side by side with --dlperf-against=REF"
_MORE: Final = "allow more with --dlperf-tolerance"
#: Metrics beside the rate, the first to be named first.
_FIRST_NAMED: Final = ("anchor", "peak_memory", "speedup", "whole_window", "cpu_seconds")
#: Verdicts whose sentence is made of figures; others have a first line of their own.
_OF_FIGURES: Final = GOOD | {Verdict.REGRESSED, Verdict.INCONCLUSIVE}


def in_brief(
    judged: Judgement,
    *,
    than: str = "stored",
    protocol: Protocol | None = None,
    why_so_wide: str = "",
) -> Judgement:
    """Return ``judged`` with a first line of its figures; what was its first line is a detail.

    ``than`` is what the rate was compared with. ``protocol`` is given for stored sessions, which
    more runs may decide; pairs have asked for as many as they may. ``why_so_wide`` says why the
    tolerance is not the usual one. Of a verdict that figures do not make, the second line is the
    detail.
    """
    first, *rest = judged.reason.split("\n")
    is_known = judged.throughput.change is not None or judged.metrics
    if judged.verdict in _OF_FIGURES and is_known:
        line, refused = _line(judged, than, protocol), judged.throughput.refused
        if judged.verdict is Verdict.PASSED and why_so_wide:
            line = f"{line}, {why_so_wide}"
        # Why the rate itself was refused
        details, rest = (rest[:1], rest[1:]) if refused else ([], rest)
        return replace(
            judged, reason="\n".join([line, *rest]), details=(first, *details, *judged.details)
        )
    if judged.verdict in {Verdict.INCOMPARABLE, Verdict.UNSTEADY} and rest:
        reason = "\n".join([first, *rest[1:]])
        return replace(judged, reason=reason, details=(rest[0], *judged.details))
    return judged


def _line(judged: Judgement, than: str, protocol: Protocol | None) -> str:
    found, is_stored = judged.throughput, protocol is not None
    seen = than_before(found, than)
    if judged.verdict is Verdict.REGRESSED:
        what = seen if _is_slower(found) else what_is_worse(judged, Verdict.REGRESSED) or seen
        remedy = f", or {ACCEPT_IT}" if is_stored else ""
        if what.endswith("the anchor"):
            remedy = ", or dlperf baselines accept --anchor"
        return with_remedy(what, f"find what changed{remedy}")
    if judged.verdict is Verdict.IMPROVED:
        return f"{seen}; store the new level with --update-baselines" if is_stored else seen
    if judged.verdict is Verdict.PASSED:
        seen = f"certainly {seen}" if judged.reason.startswith("certainly slower") else seen
        return f"{seen}, within the tolerance of {sentences.percent(found.tolerance or 0.0)}"
    if found.verdict is not Verdict.INCONCLUSIVE:
        other = what_is_worse(judged, Verdict.INCONCLUSIVE)
        return f"{other or seen}: neither within its tolerance nor certainly worse; {_MORE}"
    return f"{seen} {ends(found)}: {_open(found)}; {_remedy(found, protocol)}"


def with_remedy(words: str, remedy: str) -> str:
    """Return ``words`` with what to do, on a line of its own where one would be too long."""
    line = f"{words}; {remedy}"
    return line if len(line.split()) <= WORDS else f"{words}\n{remedy}"


def remedy_of_pairs(found: Comparison) -> str:
    """Return what would decide a case that pairs left open."""
    return _remedy(found, None)


def _is_slower(found: Comparison) -> bool:
    return found.verdict is Verdict.REGRESSED and not found.refused


def _open(found: Comparison) -> str:
    if found.interval is not None and found.interval[1] < 0:
        return "no alarm yet"
    tolerance = sentences.percent(found.tolerance or 0.0)
    return f"neither within {tolerance} nor certainly slower"


def _remedy(found: Comparison, protocol: Protocol | None) -> str:
    if found.runs_needed is not None:
        pairs = "max-runs" if protocol is None or protocol.adaptive else "runs"
        return f"--dlperf-{pairs}={found.runs_needed} would decide it"
    return _MORE if protocol is None else _COMPARE


def than_before(found: Comparison, than: str) -> str:
    """Return by how much a rate is another one ``than`` what it was compared with."""
    if found.change is None:
        return "not compared with stored sessions" if than == "stored" else "not compared"
    change = sentences.change(found.change)
    return f"as fast as {than}" if change == "unchanged" else f"{change} than {than}"


def ends(found: Comparison) -> str:
    """Return the interval of a change in brackets; those of one sign and of a slowdown without."""
    low, high = found.interval or (0.0, 0.0)
    if low < 0 and high < 0:
        return f"({100 * -high:.1f} to {sentences.percent(-low)})"
    return f"({100 * low:+.1f} to {sentences.signed(high)})"


def what_is_worse(judged: Judgement, verdict: Verdict) -> str:
    """Return the first metric beside the rate that has ``verdict``, and its change.

    Empty if there is none.
    """
    names = {name: one for name, one in judged.metrics.items() if one.verdict is verdict}
    order = [*(name for name in _FIRST_NAMED if name in names), *sorted(names)]
    return worse(order[0], names[order[0]]) if order else ""


def worse(name: str, one: Comparison) -> str:
    """Return by how much a metric beside the rate got worse."""
    change = one.change or 0.0
    if name == "anchor":
        return f"{sentences.change(change)} than the anchor"
    if name == "peak_memory":
        return f"peak memory grew by {sentences.percent(change)}"
    if name == "cpu_seconds":
        return f"CPU seconds grew by {sentences.percent(change)}"
    if name == "speedup":
        return f"speedup fell by {sentences.percent(-change)}"
    if name == "whole_window":
        return f"the whole window is {sentences.change(change)}"
    if one.change is None or one.interval is None:  # a count
        return f"{words_of(name)}: {amount(one.before or 0.0)} to {amount(one.now or 0.0)}"
    return f"{words_of(name)} changed by {sentences.signed(change)}"
