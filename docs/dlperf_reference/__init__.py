"""A Sphinx extension: the tables of the reference, made from the code.

A page says where a table is by a comment of its own, ``<!-- generated: options -->``, and in the
line before it, in italics, where a reader of a clone finds the table: the site has it instead.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from dlperf_reference import (
    commands,
    cost,
    environment,
    exit_codes,
    findings,
    hooks,
    log_formats,
    marker,
    metrics,
    news,
    options,
    problems,
    schemas,
    verdicts,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: What makes the text of each name, in Markdown.
TABLES: Final[Mapping[str, Callable[[], str]]] = {
    "commands": commands.text,
    "cost": cost.text,
    "environment": environment.text,
    "exit-codes": exit_codes.text,
    "findings": findings.text,
    "hooks": hooks.text,
    "ini": options.ini_text,
    "log-formats": log_formats.text,
    "marker": marker.text,
    "metrics": metrics.text,
    "news": news.text,
    "options": options.text,
    "problems": problems.text,
    "schemas": schemas.text,
    "verdicts": verdicts.text,
}
COMMENT: Final = re.compile(r"^\*[^\n]+\*\n<!-- generated: ([a-z-]+) -->$", re.MULTILINE)


def setup(app: Any) -> dict[str, bool]:
    """Tell Sphinx of this extension."""
    app.connect("source-read", lambda _app, _page, source: fill(source))
    return {"parallel_read_safe": True}


def fill(source: list[str]) -> None:
    """Put the tables into a page in place; raise ``KeyError`` for a name that is none."""
    source[0] = COMMENT.sub(lambda found: TABLES[found[1]](), source[0])
