"""Each planted fault of ``tests/mutants`` is a change of one line that the package still has."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.mutants import MUTANTS, Mutant

PACKAGE = Path(__file__).parents[2] / "pytest_dlperf"


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_the_line_that_a_mutant_breaks_is_in_one_file(mutant: Mutant):
    files = [p for p in PACKAGE.rglob("*.py") if mutant.line in p.read_text(encoding="utf-8")]
    assert len(files) == 1
    assert mutant.broken != mutant.line


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_the_tests_that_must_find_it_are_there(mutant: Mutant):
    words = mutant.tests.partition(" -k ")[0].split()
    missing = [word for word in words if not (PACKAGE.parent / word.partition("::")[0]).exists()]
    assert words
    assert missing == []
