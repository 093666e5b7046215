"""Sinks of our own: results as JSON to a webhook, a few sentences to a chat."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from pytest_dlperf.core.verdict import BAD, Verdict
from pytest_dlperf.session.sinks.post import request

#: Their addresses are secrets: whoever has one can write there.
WEBHOOK: Final = "DLPERF_WEBHOOK"
CHAT: Final = "DLPERF_CHAT_WEBHOOK"
_SENTENCES_MAX: Final = 10
_SENTENCE_LENGTH_MAX: Final = 300


def webhook(results: Mapping[str, Any]) -> str:
    """Post the results file to ``DLPERF_WEBHOOK``; return the host that took it."""
    return _post(WEBHOOK, results)


def chat(results: Mapping[str, Any]) -> str:
    """Post ``{"text": …}`` to ``DLPERF_CHAT_WEBHOOK``, as Slack and Mattermost take it."""
    return _post(CHAT, {"text": chat_text(results)})


def chat_text(results: Mapping[str, Any]) -> str:
    """Return the verdicts counted, and the sentences of what failed."""
    outcomes = results["outcomes"]
    counts = Counter(outcome["judgement"]["verdict"] for outcome in outcomes)
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
    lines = [f"{len(outcomes)} {'case' if len(outcomes) == 1 else 'cases'}: {verdicts}"]
    failed = [one for one in outcomes if Verdict(one["judgement"]["verdict"]) in BAD]
    for outcome in failed[:_SENTENCES_MAX]:
        # A traceback follows the first line
        reason = next(iter(outcome["judgement"]["reason"].splitlines()), "")
        reason = reason[:_SENTENCE_LENGTH_MAX]
        lines.append(_plain(f"{outcome['case']['id']}: {reason}"))
    if len(failed) > _SENTENCES_MAX:
        lines.append(f"and {len(failed) - _SENTENCES_MAX} more")
    return "\n".join(lines)


def _plain(words: str) -> str:
    """Return words that a chat takes neither for a mention nor for a link or markup."""
    for character, instead in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("@", "@\u200b")):
        words = words.replace(character, instead)
    return words


def _post(variable: str, values: Mapping[str, Any]) -> str:
    url = os.environ.get(variable, "").strip()
    if not url:
        raise ValueError(f"{variable} is not set; put the address there")
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"{variable} is not an address of http or https")
    request(url, values)
    return parts.hostname
