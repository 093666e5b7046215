"""Commits as people read them."""

from __future__ import annotations

from typing import Final

#: Enough to tell a repository's commits apart, and short enough for a column.
_SHOWN: Final = 12


def short_commit(commit: str) -> str:
    """Return the beginning of a commit; empty for none."""
    return commit[:_SHOWN]
