"""Writes the repository's address into README and pyproject.toml, before a release is built.

    python .github/write_address.py https://github.com/OWNER/NAME v0.1.0

An index shows README without the repository: links and pictures lead there by the address, and to
what the tag has. Addresses of headings of the page itself stay.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(?P<picture>!?)(?P<text>\[[^\]]*\])\((?P<target>(?!https?://|#)[^)\s]+)\)")


def absolute(readme: str, address: str, tag: str) -> str:
    """Return `readme` with links relative to the repository led to `tag` at `address`."""

    def link(match: re.Match[str]) -> str:
        picture, text, target = match.group("picture", "text", "target")
        return f"{picture}{text}({address}/{'raw' if picture else 'blob'}/{tag}/{target})"

    return LINK.sub(link, readme)


def with_urls(project: str, address: str) -> str:
    """Return pyproject.toml with the table of addresses that an index shows."""
    table = (
        "[project.urls]\n"
        f'Homepage = "{address}"\n'
        f'Documentation = "{address}/blob/main/docs/index.md"\n'
        f'Changelog = "{address}/blob/main/CHANGELOG.md"\n'
        f'Issues = "{address}/issues"\n\n'
    )
    before = "[project.optional-dependencies]\n"
    if "[project.urls]" in project or before not in project:
        sys.exit("pyproject.toml: it has addresses already, or no optional dependencies")
    return project.replace(before, table + before)


if __name__ == "__main__":
    address, tag = sys.argv[1:]
    for name, written in (
        ("README.md", lambda text: absolute(text, address, tag)),
        ("pyproject.toml", lambda text: with_urls(text, address)),
    ):
        path = ROOT / name
        path.write_text(written(path.read_text("utf-8")), "utf-8")
