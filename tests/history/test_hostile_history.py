"""Every ``dlperf history`` command over a history whose texts would all steer a terminal."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.helpers.history_builders import outcome

pytest.importorskip("otava", reason="the extra history is not installed (tox env outputs)")

from pytest_dlperf import cli
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.verdict import Judgement, Verdict
from pytest_dlperf.report import json_
from pytest_dlperf.store.history.append import append
from tests.helpers.filled import filled
from tests.helpers.hostile_text import HOSTILE, assert_nothing_steers

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_dlperf.store.history.address import Address

#: No database stores half a character.
TEXT = HOSTILE.replace("\ud800", "").replace("\0", "") + "\n::error::owned\x1b[2J\u202e"


def hostile(day: int, level: float) -> Outcome:
    """Return an outcome of one day in which what a history shows is hostile."""
    found = outcome(
        day, of=filled(Case, TEXT), rates=[level, level * 1.01], node=TEXT, software={TEXT: TEXT}
    )
    return replace(
        found,
        node_id=f"{TEXT}::test",
        commit=f"{day}{TEXT}",
        judgement=Judgement(verdict=Verdict.REGRESSED, reason=TEXT),
    )


@pytest.fixture
def history(here: Address, monkeypatch: pytest.MonkeyPatch) -> Address:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    for day in range(40):
        append(here, f"{TEXT}{day}", [hostile(day, 1000.0 if day < 20 else 800.0)])
    return here


def test_nothing_that_is_stored_steers_what_shows_it(
    history: Address, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case_id = filled(Case, TEXT).id
    results = tmp_path / f"{TEXT[:20]}.json".replace("/", "")
    json_.write(results, [hostile(50, 800.0)])
    for words in (
        ("list",),
        ("list", "--json"),
        ("series", case_id),
        ("series", "*", "--json"),
        ("series", TEXT),
        ("show", case_id),
        ("changes",),
        ("changes", "--json"),
        ("bisect", case_id),
        ("bisect", case_id, "--json"),
        ("export", "--csv=-"),
        ("export", f"--html={tmp_path / 'h.html'}"),
        ("import", str(results)),
        ("send",),
        ("site", str(tmp_path / "site")),
        ("site", str(results)),
        ("list", f"--history={TEXT}"),
        ("list", f"--history=postgresql://{TEXT}"),
        ("series", case_id, f"--since={TEXT}"),
    ):
        code = cli.main(["history", *words])
        written = capsys.readouterr()
        assert code in {0, 1, 2}, written.err
        assert_nothing_steers(written.out)
        assert_nothing_steers(written.err)
        if "--json" in words:
            json.loads(written.out)
