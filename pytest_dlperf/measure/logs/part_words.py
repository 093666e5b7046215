"""Sentences of a log that say whose work its rates count, where the lines with rates do not."""

from __future__ import annotations

import re
from itertools import islice
from typing import Final

_RATE: Final = (
    rb"(?:throughputs?|speeds?|(?<!learning )(?<!learning_)(?<!sampling )(?<!sample )\brates?"
    rb"|(?:tok|token|sample|image|img|seq|sequence|step|iteration|it|example|clip|frame|word)s?"
    rb" ?(?:/ ?s(?:ec)?|per second)|perf(?:ormance)?(?: numbers)?)\b"
)
_PART: Final = (
    rb"(?:(?:per|/|(?:of|for|on|by) (?:each|one|every|a single|a|this))[ -]?"
    rb"(?:[gntxh]pu|devices?|rank|worker|node|host|machine|chip|core|card|accelerator|process"
    rb"|replica)|(?:of|on|for|from) rank 0(?: only)?|rank-local|node-local"
    rb"|local to (?:each|this) \w+)\b"
)
#: A sentence, and no record: it has a verb, or a word of what is to come, and no number.
_SAYS: Final = (
    rb"(?: (?:is|are|was|were|means?|below|above|reported|shown|printed|given|measured|logged"
    rb"|counted|computed|in|numbers?|all)\b|:|=| \()"
)
_BETWEEN: Final = rb"[^\n\d]{0,60}?"
_SENTENCE: Final = re.compile(
    rb"^[^\n\d]{0,80}?\b"
    + _RATE
    + rb"(?=[^\n]{0,80}?"
    + _SAYS
    + rb")"
    + _BETWEEN
    + _PART
    + rb"(?:[^\n\d]|\bevery \d+){0,120}$",
    re.IGNORECASE | re.MULTILINE,
)
#: Words by which a sentence is of something else than training's rates.
_OF_ELSE: Final = re.compile(
    rb"\b(?:eval\w*|valid\w*|test|inference|generation|rollouts?|prefill|decod\w*|peak|theoretical"
    rb"|limit|max\w*|not|n't|flops?/s|gb/s|bandwidth)\b",
    re.IGNORECASE,
)
_LONGEST: Final = 160
#: More sentences of a block are not looked at.
_MOST: Final = 100


def rate_of_part(block: bytes) -> str:
    """Return the first sentence that rates are of a device or a node; empty where none says it."""
    for match in islice(_SENTENCE.finditer(block), _MOST):
        if not _OF_ELSE.search(match[0]):
            return match[0].strip()[:_LONGEST].decode(errors="replace")
    return ""
