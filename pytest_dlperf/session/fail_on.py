"""What fails a test in gate mode: verdicts, and codes of findings."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.finding import Weight, counting
from pytest_dlperf.core.finding_codes import CODES, MAY_FAIL
from pytest_dlperf.core.verdict import BAD, GOOD, NOT_JUDGED, Judgement, KnownState, Verdict

#: How alike two words are of which one was meant, by ``difflib``: one letter in five differs.
_CLOSE: Final = 0.8
#: The metric behind a code.
_METRIC: Final = re.compile(r":[a-z][a-z0-9_]*$", re.ASCII)
_VERDICTS: Final = {verdict.value: verdict for verdict in Verdict if verdict not in GOOD}


@dataclass(frozen=True, kw_only=True, slots=True)
class FailOn:
    """The verdicts that fail a test, and the codes that do so with any verdict.

    A code may have a metric, as ``worse:peak_memory``: then only of that one.
    """

    verdicts: frozenset[Verdict] = BAD
    codes: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, names: Collection[str], *, strict: bool = False) -> FailOn:
        """Return what ``dlperf_fail_on`` names, and what fails by default.

        Raises ``UsageError`` for a name that is neither a verdict nor a code that can fail.
        """
        for name in names:
            if name not in _VERDICTS and _METRIC.sub("", name) not in MAY_FAIL:
                raise UsageError(f"ini dlperf_fail_on: {name!r} {_why_not(name)}")
        verdicts = BAD | {_VERDICTS[name] for name in names if name in _VERDICTS}
        return cls(
            verdicts=verdicts | NOT_JUDGED if strict else verdicts,
            # A verdict's own name is the verdict
            codes=frozenset(names) - _VERDICTS.keys(),
        )

    def fails(self, judgement: Judgement) -> bool:
        """Whether a judgement fails its test: by its verdict, or by a finding that counts.

        A known slowdown passes, whatever is named; one that is gone fails.
        """
        if judgement.known is KnownState.KNOWN and judgement.verdict is Verdict.REGRESSED:
            return False
        if judgement.known is KnownState.GONE or judgement.verdict in self.verdicts:
            return True
        failing = [f for f in counting(judgement.findings) if f.weight is not Weight.NOTE]
        names = {name for finding in failing for name in (finding.code, finding.name)}
        return not self.codes.isdisjoint(names)


def _why_not(name: str) -> str:
    """Return why nothing fails by ``name``, and what may have been meant."""
    if name in CODES or name in {verdict.value for verdict in GOOD}:
        return "fails nothing: it is good, or a note that counts for nothing"
    names = [*_VERDICTS, *sorted(MAY_FAIL - _VERDICTS.keys())]
    close = difflib.get_close_matches(name, names, cutoff=_CLOSE)
    meant = f"; did you mean {' or '.join(close)}?" if close else ""
    return (
        f"is neither a verdict ({', '.join(_VERDICTS)}) nor a code ({', '.join(sorted(MAY_FAIL))})"
        f"{meant}"
    )
