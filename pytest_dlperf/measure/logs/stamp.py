"""Time stamps that loggers put before a line."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import Final

_DATE: Final = re.compile(
    rb"(\d{4})[-/](\d\d)[-/](\d\d)[ T](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,6}))?"
)
# glog and absl leave the year out; any leap year keeps 29 February possible.
_GLOG: Final = re.compile(rb"[IWEF](\d\d)(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{1,6})")


def stamp(line: bytes) -> float | None:
    """Return the seconds of a line's time stamp; only differences mean anything."""
    head = line[:200]
    if match := _DATE.search(head):
        parts, fraction = [int(part) for part in match.groups()[:6]], match[7]
    elif match := _GLOG.search(head):
        parts, fraction = [2000, *(int(part) for part in match.groups()[:5])], match[6]
    else:
        return None
    try:
        whole = datetime(*parts, tzinfo=timezone.utc).timestamp()  # type: ignore[arg-type,misc]
    except ValueError:
        return None
    return whole + (float(b"0." + fraction) if fraction else 0.0)
