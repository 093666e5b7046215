"""Write what the judge says of recorded and of drawn noise: ``python benchmarks/judged_noise.py``.

``judged_noise.md`` has it as of the last change of the judge, so that a change shows there what it
does. The numbers are counts with equal seeds, and small: ``verdicts.py``, ``live_replay.py`` and
``verdict_worlds.py`` have the studies.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

# Imported by a test, the folder of this file is not where Python looks for its neighbours.
sys.path.insert(0, str(Path(__file__).parent))

import live_replay
import verdict_worlds
from pytest_dlperf.core.verdict import Rule
from worlds import WORLDS

FILE: Final = Path(__file__).with_suffix(".md")
_TOLERANCE: Final = 0.05
#: Of recorded sessions: how many are stored, and by how much steps are longer.
_STORED: Final = (1, 5)
_LONGER: Final = (0.0, 0.05, 0.1, 0.2)
#: Of drawn ones: stored sessions, slowdowns, suites of each, and cases of a suite.
_SESSIONS: Final = (1, 10)
_SLOW: Final = (0.0, 0.05)
_SUITES: Final = 2
_CASES: Final = 10
_HEAD: Final = """# What the judge says of noise
Written by `python benchmarks/judged_noise.py` after each change of the judge. Tolerance 5 %.
"""


def text() -> str:
    """Return the whole file."""
    return "\n".join([_HEAD, *_recorded(), *_drawn()]) + "\n"


def _recorded() -> Iterator[str]:
    yield "## Recorded live sessions\n"
    blocks = live_replay.blocks_of()
    rule = Rule(family=live_replay.FAMILY, tolerance=_TOLERANCE)
    for count in _STORED:
        judgements = live_replay.replayed(blocks, count, _LONGER, rule)
        yield f"{count} stored:\n\n{live_replay.table(judgements)}\n"


def _drawn() -> Iterator[str]:
    columns = [(sessions, slow) for sessions in _SESSIONS for slow in _SLOW]
    heads = " | ".join(f"{sessions} stored, {slow:.0%} slower" for sessions, slow in columns)
    yield (
        f"## Worlds of `worlds.py`\nOf {_SUITES} suites and {_SUITES * _CASES} cases each: "
        "suites with an alarm/cases regressed/passed/gone to pairs/pairs.\n"
    )
    yield f"| world | {heads} |"
    yield "|---" * (1 + len(columns)) + "|"
    asked = verdict_worlds.Asked(
        cases=_CASES,
        suites=_SUITES,
        seed=1,
        device="gpu",
        rule=Rule(tolerance=_TOLERANCE, family=_CASES),
        without_pairs=False,
        peers=False,
    )
    for name, world in WORLDS.items():
        tallies = (
            verdict_worlds.suites_of(name, world, sessions, slow, asked)
            for sessions, slow in columns
        )
        cells = " | ".join(
            f"{tally.alarmed}/{tally.regressed}/{tally.passed}/{tally.to_pairs}/{tally.pairs}"
            for tally in tallies
        )
        yield f"| {name} | {cells} |"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
