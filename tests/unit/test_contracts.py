"""Import contracts that list modules list all of them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_contract_of_suites_names_every_suite() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    [contract] = re.findall(r'id = "suites-apart".*?modules = \[(.*?)\]', text, re.DOTALL)
    named = re.findall(r'"perf_tests\.(\w+)"', contract)
    assert named == sorted(path.parent.name for path in ROOT.glob("perf_tests/*/cases.py"))
