"""The study behind ``benchmarks/verdicts.py``: data, trials, and what is shown of them."""

from __future__ import annotations
