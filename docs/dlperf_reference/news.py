"""What the next version brings, from the fragments in ``changelog.d/``."""

from __future__ import annotations

from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parents[2] / "changelog.d"
KINDS: Final = {"added": "Added", "changed": "Changed", "fixed": "Fixed", "removed": "Removed"}


def text() -> str:
    """Return a list for every kind of news."""
    parts = []
    for kind, title in KINDS.items():
        found = sorted(FOLDER.glob(f"*.{kind}.md"))
        if found:
            items = "\n".join("- " + path.read_text("utf-8").strip() for path in found)
            parts.append(f"### {title}\n{items}\n")
    return "\n".join(parts)
