"""A headless Chromium, and the pages of a session in it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_dlperf.report.page.session_page import render
from tests.helpers import page_outcomes
from tests.helpers.chromium import chromium

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from playwright.sync_api import Browser, Page

    from pytest_dlperf.core.outcome import Outcome

DESKTOP, PHONE = (1280, 900), (390, 844)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--screenshots", metavar="DIR", help="write pictures of the session's page into DIR"
    )


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


class Watched:
    """A page with what must not happen in it."""

    def __init__(self, page: Page, path: Path) -> None:
        self.page = page
        self.errors: list[str] = []
        self.requests: list[str] = []
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("dialog", lambda dialog: self.errors.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: self.requests.append(request.url))
        self.url = path.as_uri()
        page.goto(self.url)

    def _said(self, message: Any) -> None:
        if message.type in {"error", "warning"}:
            self.errors.append(message.text)

    def open_all(self) -> None:
        """Open every case."""
        self.page.evaluate("document.querySelectorAll('details.case').forEach(d => d.open = true)")

    @property
    def overflow(self) -> int:
        """Pixels by which the page is wider than its window."""
        return self.page.evaluate("document.documentElement.scrollWidth - innerWidth")

    def check(self) -> None:
        """Assert that nothing went wrong and nothing was fetched."""
        assert self.errors == []
        own = (self.url, "blob:", "data:")
        assert [url for url in self.requests if not url.startswith(own)] == []


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Watched]]:
    """Open the page of outcomes, or of a text, in a window of its own."""
    contexts = []

    def opened(
        what: Sequence[Outcome] | str,
        size: tuple[int, int] = DESKTOP,
        scheme: str = "light",
        **options: Any,
    ) -> Watched:
        path = tmp_path / f"page{len(contexts)}.html"
        path.write_text(what if isinstance(what, str) else render(what), encoding="utf-8")
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, **options
        )
        contexts.append(context)
        context.set_default_timeout(20_000)
        return Watched(context.new_page(), path)

    yield opened
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def every_verdict() -> str:
    return render(page_outcomes.every_verdict())


@pytest.fixture
def screenshots(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The folder of pictures: a temporary one unless it was named."""
    path = Path(request.config.getoption("--screenshots") or tmp_path)
    path.mkdir(parents=True, exist_ok=True)
    return path
