"""Print the result of a command, as text or JSON."""

from __future__ import annotations

import json
import sys
from typing import Any


def say(text: str) -> None:
    """Print ``text`` and a line end; what the terminal cannot show is escaped."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")


def say_json(values: Any) -> None:
    """Print ``values`` as JSON with sorted keys."""
    say(json.dumps(values, indent=1, sort_keys=True, allow_nan=False))
