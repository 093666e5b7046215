"""What ids, units and sentences must not do to a report, and outcomes that have it."""

from __future__ import annotations

import unicodedata
from typing import Any

from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.verdict import Comparison, Judgement, Verdict
from tests.helpers.report_builders import case, measured, unmeasured

#: Markup, a mention, a reference, a terminal's commands, a runner's commands, turned text.
HOSTILE = (
    "<script>alert(1)</script> | `x` **b** [a](http://b) @octocat #12 GH-3 !4\n"
    "::error file=a::owned\n"
    "  ::stop-commands::x\n"
    "x ##[set-output name=a]b\n"
    "\x1b[2J\x1b]0;title\x07 \x00 \x9b1m \u202egnp.exe \ud800\r\n"
    "```\n</details> 训练吞吐率 שלום\n"
)


def judged(
    verdict: Verdict,
    change: float | None = None,
    *,
    suite: str = "tsm",
    reason: str = "so it is",
    **fields: Any,
) -> Outcome:
    """Return a measured outcome; a regressed one has failed."""
    now = None if change is None else 100 * (1 + change)
    interval = None if change is None else (change - 0.01, change + 0.01)
    comparison = Comparison(now=now, before=100.0, change=change, interval=interval, sees=0.012)
    judgement = Judgement(verdict=verdict, reason=reason, throughput=comparison)
    values: dict[str, Any] = {"failed": verdict is Verdict.REGRESSED} | fields
    return measured(case(suite=suite), now or 100.0, judgement=judgement, **values)


def hostile() -> list[Outcome]:
    """Return outcomes of each standing whose sentences are hostile."""
    return [
        judged(Verdict.PASSED, 0.0, suite="fine"),
        judged(Verdict.REGRESSED, -0.05, suite="slow", reason=HOSTILE),
        unmeasured(case(suite="broken"), Verdict.ERROR, HOSTILE, failed=True),
        unmeasured(case(suite="open"), Verdict.NOT_RUN, HOSTILE),
    ]


def assert_nothing_steers(text: str) -> None:
    """Check that no character controls a terminal, and no line is a command of GitHub's runner."""
    steering = [c for c in text if c != "\n" and c != "\t" and _steers(c)]
    assert not steering, text
    for line in text.split("\n"):
        assert not line.lstrip().startswith("::"), line
        assert "##[" not in line, line


def _steers(character: str) -> bool:
    """Whether Unicode calls it a control or a surrogate, or it turns the direction of text."""
    turns = unicodedata.bidirectional(character) in {
        "LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI",
    }  # fmt: skip
    return turns or unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"}
