"""The process of one sink: the session that started it goes on, also where this one dies.

``python -m pytest_dlperf.session.sinks.child NAME ANSWER SECONDS``, with the results on stdin.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

from pytest_dlperf.core.writable import error_words, writable
from pytest_dlperf.session.sinks.names import load


def main(name: str, answer: Path, limit_s: int) -> None:
    """Call the sink, and write into ``answer`` where it sent the results.

    Raises ``SystemExit`` with what the sink raised in one line, which Python writes to stderr.
    """
    # Also where the session is killed, and nobody is left to end this process
    signal.alarm(limit_s)
    try:
        where = load(name)(json.load(sys.stdin))
    except Exception as error:  # a stranger's code may raise anything
        raise SystemExit(" ".join(error_words(error).split())) from error
    answer.write_text("" if where is None else writable(str(where)), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
