"""A sink that keeps one open issue for what fails, by the interface of GitHub."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

from pytest_dlperf.core.outcome import results_from_json
from pytest_dlperf.report import pull_request
from pytest_dlperf.report.gate import gate_name
from pytest_dlperf.session.sinks.post import request

_API: Final = "https://api.github.com"
#: Issues of ours are found by it, however many others are open.
LABEL: Final = "pytest-dlperf"


def issue(results: Mapping[str, Any]) -> str | None:
    """Open an issue of what failed, or comment the open one of this gate; return its address.

    The repository is that of ``GITHUB_REPOSITORY``, the token ``GITHUB_TOKEN``. Where nothing
    failed, nothing is sent. Raises ``ValueError`` where one of the two is not set, and what
    urllib raises.
    """
    outcomes = [o for o in results_from_json(results, where="results") if o.failed]
    if not outcomes:
        return "nobody: nothing failed"
    repository = _variable("GITHUB_REPOSITORY", "owner/name of the repository")
    token = _variable("GITHUB_TOKEN", "a token that may write issues")
    api = os.environ.get("GITHUB_API_URL", "").strip() or _API
    issues = f"{api.rstrip('/')}/repos/{quote(repository)}/issues"
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/vnd.github+json"}
    title = f"Training performance: {gate_name()}"
    body = {"body": pull_request.render(outcomes)}
    query = urlencode({"state": "open", "labels": LABEL, "per_page": 100})
    open_issues = request(f"{issues}?{query}", headers=headers)
    numbers = [item["number"] for item in open_issues if item["title"] == title]
    if numbers:
        made = request(f"{issues}/{min(numbers)}/comments", body, headers=headers)
    else:
        made = request(issues, {"title": title, "labels": [LABEL], **body}, headers=headers)
    return str(made["html_url"])


def _variable(name: str, what: str) -> str:
    value = os.environ.get(name, "").strip()
    if not value:
        raise ValueError(f"{name} is not set; put {what} there")
    return value
