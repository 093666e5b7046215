"""How Sphinx makes the site: ``tox -e docs``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest_dlperf

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

project = "pytest-dlperf"
author = copyright = "The pytest-dlperf developers"
version = release = pytest_dlperf.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "dlperf_reference"]
html_theme = "furo"
html_title = f"pytest-dlperf {release}"
myst_heading_anchors = 4
autodoc_typehints = "none"
# Frameworks are not there where documents are made.
autodoc_mock_imports = ["torch", "paddle", "tensorflow", "horovod"]
exclude_patterns = ["_build"]
# The Markdown of a document is read by people on its own as well, so it has no prompts.
highlight_language = "none"
# Types that pages describe in words.
nitpick_ignore = [("py:class", name) for name in ("Outcome", "Feed")]


def setup(app: Any) -> None:
    """Leave pages out of the index that this tree does not have."""

    def keep(_app: Any, name: str, source: list[str]) -> None:
        for page in ("ci", "history"):
            if name == "index" and not (HERE / f"{page}.md").exists():
                source[0] = source[0].replace(f"\n{page}\n", "\n")

    app.connect("source-read", keep)
