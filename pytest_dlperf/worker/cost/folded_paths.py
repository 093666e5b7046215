"""Paths of modules in which layers that are alike are one: ``blocks.*.attention``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

#: Parts of a path that wrappers of PyTorch put into it.
_WRAPPERS: Final = frozenset({
    "_checkpoint_wrapped_module", "_forward_module", "_fsdp_wrapped_module", "_orig_mod",
})  # fmt: skip


def folded(path: str) -> str:
    """Return ``path`` with ``*`` for the index of a layer, and without parts of wrappers."""
    parts = (part for part in path.split(".") if part not in _WRAPPERS)
    return ".".join("*" if part.isdigit() else part for part in parts)


def layers(paths: Iterable[str], used: Iterable[str]) -> dict[str, int]:
    """Return how many of the modules at ``paths`` each folded path of ``used`` stands for."""
    counts = Counter(map(folded, paths))
    return {path: counts[path] for path in sorted(set(used)) if "*" in path and path in counts}
