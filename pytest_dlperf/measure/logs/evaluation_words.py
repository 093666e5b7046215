"""Words of a line that name an evaluation, which is done beside training."""

from __future__ import annotations

import re
from typing import Final

#: What is done; a part of a path, of a module's name or of a setting names nothing that is done.
EVALUATION: Final = (
    rb"eval(?:uat(?:e|ed|es|ing|ion))?|valid(?:at(?:e|ed|es|ing|ion))?|val|test(?:ing|ed)?"
    rb"|inference"
)
BEFORE: Final = rb"(?<![\w./\\-])"
AFTER: Final = rb"(?![\w/\\=-]|\.\w)"
#: ``val loss 2.1`` and ``val: 2.1`` are results, which training's lines may have as well.
_NO_RESULT: Final = (
    rb"(?!['\"]?[ _-]?(?:loss|acc|ppl|perplexity|score|metric|error|top\d|map|miou|bleu|f1|auc)"
    rb"|['\"]?: ?(?:-?\d|false|none|null))"
)
_EVALUATES: Final = re.compile(
    BEFORE + rb"(?:" + EVALUATION + rb")" + AFTER + _NO_RESULT, re.IGNORECASE
)
_TRAINS: Final = re.compile(BEFORE + rb"train(?:ing)?" + AFTER, re.IGNORECASE)
#: A user's pattern that has such a word asks for its lines.
_IN_PATTERN: Final = re.compile(r"eval|val|test|infer", re.IGNORECASE)


def names_evaluation(text: bytes) -> bool:
    """Return whether words before a number name an evaluation, and not training."""
    return _EVALUATES.search(text) is not None and _TRAINS.search(text) is None


def asks_for_evaluation(regex: str) -> bool:
    """Return whether a user's pattern itself names an evaluation."""
    return _IN_PATTERN.search(re.sub(r"\(\?P<\w+>", "(", regex)) is not None
