"""Requests of sinks: JSON over HTTP, which follows no redirect."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping
from typing import Any, Final

_TIMEOUT_S: Final = 20.0


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: urllib would follow one by a GET, and what was posted would be lost."""

    def redirect_request(self, *_: Any) -> None:
        return None


def request(
    url: str, values: Mapping[str, Any] | None = None, *, headers: Mapping[str, str] | None = None
) -> Any:
    """Post ``values``, or get where there are none; return the answer's JSON, None if empty.

    Raises ``OSError`` where nobody answers or the server refuses, ``ValueError`` where its answer
    to a question is no JSON.
    """
    data = None if values is None else json.dumps(values, allow_nan=False).encode()
    made = urllib.request.Request(
        url,
        data=data,
        headers={"Content-Type": "application/json", **(headers or {})},
        method="GET" if data is None else "POST",
    )
    with urllib.request.build_opener(_NoRedirect).open(made, timeout=_TIMEOUT_S) as answer:
        text = answer.read()
    # Webhooks answer in words
    is_json = "json" in (answer.headers.get("Content-Type") or "")
    return json.loads(text) if is_json and text else None
