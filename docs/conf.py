"""How Sphinx makes the site: ``tox -e docs``."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest_dlperf

sys.path.insert(0, str(Path(__file__).parent))

project = "pytest-dlperf"
author = copyright = "The pytest-dlperf developers"
version = release = pytest_dlperf.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "dlperf_reference"]
html_theme = "furo"
html_title = f"pytest-dlperf {release}"
myst_enable_extensions = ["html_image"]
myst_heading_anchors = 4
autodoc_typehints = "none"
# Two dashes stay what is typed: texts of help have options without backticks.
smartquotes = False
# Frameworks are not there where documents are made.
autodoc_mock_imports = ["torch", "paddle", "tensorflow", "horovod", "jax", "jaxlib"]
exclude_patterns = ["_build"]
# The Markdown of a document is read by people on its own as well, so it has no prompts.
highlight_language = "none"
# Types that pages describe in words.
nitpick_ignore = [("py:class", name) for name in ("Outcome", "Feed")]
