"""The name of a gate, by which its comment or issue is found again.

It is that of the job, and not of what was measured: a session that was cancelled before it
measured has no machine, and one that lost a GPU another one.
"""

from __future__ import annotations

import os
import re
from typing import Final

#: Variables that name a gate, those that count first: the user's word, then the workflow and job
#: of GitHub Actions, and the job of GitLab, which has the values of its matrix.
#: https://docs.github.com/en/actions/reference/workflows-and-actions/variables
#: https://docs.gitlab.com/ci/variables/predefined_variables/
_NAMES: Final = (("DLPERF_GATE",), ("GITHUB_WORKFLOW", "GITHUB_JOB"), ("CI_JOB_NAME",))
#: Where none is set.
_UNNAMED: Final = "gate"
#: What is not put into a marker: a comment of HTML ends at --> or --!>
_ESCAPED: Final = re.compile(r"[^A-Za-z0-9 .+-]|-(?=-)")


def gate_name() -> str:
    """Return what the environment calls this gate, in one line; ``gate`` where it has no name."""
    for names in _NAMES:
        words = " ".join(" ".join(os.environ.get(name, "") for name in names).split())
        if words:
            return words
    return _UNNAMED


def marker() -> str:
    """Return the line of HTML that a comment of this gate begins with, and no other gate's."""
    name = _ESCAPED.sub(lambda character: f"_{ord(character[0]):x}", gate_name())
    return f"<!-- pytest-dlperf: {name} -->"
