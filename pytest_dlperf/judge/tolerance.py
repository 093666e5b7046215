"""The slowdown up to which a case passes: given, or what few stored sessions can show."""

from __future__ import annotations

from dataclasses import replace

from pytest_dlperf.core.baseline import Baseline
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.verdict import TOLERANCE, Rule
from pytest_dlperf.judge.stats import priors
from pytest_dlperf.judge.stats.contrast import share_of
from pytest_dlperf.judge.stats.priors import ENOUGH_SESSIONS
from pytest_dlperf.judge.stats.stored import far_of


def tolerance_of(case: Case, baseline: Baseline | None, rule: Rule) -> float:
    """Return the slowdown up to which a case passes.

    That of the command line, else of the case, else of the baseline, else ``TOLERANCE``; where no
    pairs can follow and few sessions are stored, else the fall that an alarm by them must exceed.
    """
    stored = None if baseline is None else baseline.tolerance
    given = (rule.tolerance, case.tolerance, stored)
    return next((share for share in given if share is not None), _not_given(case, baseline, rule))


def _not_given(case: Case, baseline: Baseline | None, rule: Rule) -> float:
    if not rule.without_pairs or baseline is None or baseline.source.kind != "measured":
        return TOLERANCE
    sessions = sum(bool(session.runs) for session in baseline.level)
    return max(TOLERANCE, share_of(far_of(sessions, priors.prior_of_throughput(case))))


def why_so_wide(case: Case, baseline: Baseline | None, rule: Rule) -> str:
    """Return why a case passes within more than ``TOLERANCE``, which nobody gave, in words.

    Empty where it does not.
    """
    if tolerance_of(case, baseline, rule) == tolerance_of(
        case, baseline, replace(rule, without_pairs=False)
    ):
        return ""
    return f"all that fewer than {ENOUGH_SESSIONS} stored sessions show without pairs"
