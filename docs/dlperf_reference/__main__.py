"""Prints tables of the reference as Markdown: ``python -m dlperf_reference marker options``."""

from __future__ import annotations

import sys

from dlperf_reference import TABLES

if unknown := [name for name in sys.argv[1:] if name not in TABLES]:
    sys.exit(f"no table {', '.join(unknown)}; there are: {', '.join(TABLES)}")
for name in sys.argv[1:] or TABLES:
    print(TABLES[name]())
