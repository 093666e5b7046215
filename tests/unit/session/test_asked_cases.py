"""Cases of markers, as the command line asks for them: what collection decides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.session.case_ids import LONGEST, refused
from pytest_dlperf.session.collection import as_asked, declared_by
from pytest_dlperf.store.baseline.key import PROFILE_END
from pytest_dlperf.store.baseline.replace_file import replace_file
from tests.helpers.given_options import settings_of

KEYS: dict[str, Any] = {"layout": "1n1c", "batch_size_per_device": 4}


def declared(**keys: Any) -> Any:
    return declared_by([(("w:build",), KEYS | keys)], function="test_net")


def test_all_markers_of_a_test_are_read_in_order():
    markers = [(("w:build",), KEYS | {"suite": suite}) for suite in ("b", "a")]
    assert [case.suite for case in declared_by(markers, function="test_net")] == ["b", "a"]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"layout": "1n1x"}, "unknown layout '1n1x'"),
        ({"precision": "int4"}, "unknown precision"),
        ({"framework": "mxnet"}, "unknown framework"),
        ({"tolerance": "abc"}, "tolerance"),
        ({"warmup": 150}, "not below"),
        ({"layout": ["1n1c", "1n1c"]}, "is declared twice"),
        ({"known": {"issue": "#123", "change": "-4%"}}, "give issue, until and change"),
        ({"launcher": "ssh"}, "unknown launcher 'ssh'; known: auto, accelerate"),
    ],
)
def test_markers_that_cannot_be_meant(keys: dict[str, Any], message: str):
    with pytest.raises(UsageError) as caught:
        declared(**keys)
    assert message in str(caught.value)


def test_a_log_format_that_nobody_reads():
    marker = {**KEYS, "command": ["python", "train.py"], "log_format": "none-of-ours"}
    with pytest.raises(UsageError, match="none-of-ours"):
        declared_by([((), marker)], function="test_net")


def test_one_id_in_two_places_names_both():
    def twice(first: str, second: str) -> str:
        return f"in {first} and in {second}"

    assert refused([("a", "x.py"), ("b", "x.py")], twice) == {}
    found = refused([("a", "x.py"), ("b", "x.py"), ("a", "y.py")], twice)
    assert found == {"a": "case id a is declared twice: in x.py and in y.py"}


def test_an_id_that_no_file_can_have_is_refused_with_what_it_may_be():
    with pytest.raises(UsageError) as caught:
        declared(suite="s" * 190)
    assert "has 210 bytes, and as the name of its files it has at most 200" in str(caught.value)
    assert len(declared(suite="s" * 180)) == 1


@pytest.mark.parametrize("end", [".json", ".published.json", PROFILE_END])
def test_the_longest_id_names_every_file_of_a_baseline(tmp_path: Path, end: str):
    file = tmp_path / f"{'s' * LONGEST}{end}"
    replace_file(file, b"x")
    assert file.read_bytes() == b"x"


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--dlperf-warmup=150", "not below the 150 iterations"),
        ("--dlperf-warmup=1", "2 or more"),
        ("--dlperf-launcher=ssh", "known are accelerate"),
    ],
)
def test_options_that_no_case_can_have(tmp_path: Path, option: str, message: str):
    with pytest.raises(UsageError) as caught:
        as_asked(declared(), settings_of(option, folder=tmp_path))
    assert message in str(caught.value)


def test_a_window_that_does_not_fit_one_case_stops_no_other(tmp_path: Path):
    cases = [*declared(), *declared(suite="long", iterations=300, warmup=200)]
    asked, unfit = as_asked(cases, settings_of("--dlperf-iterations=100", folder=tmp_path))
    assert [case.protocol.iterations for case in asked] == [100, 300]
    [(name, why)] = unfit.items()
    assert name == cases[1].id_without_layout
    assert why.startswith("warm-up 200 is not below the 100 iterations")


def test_a_launcher_for_all_cases_is_not_that_of_a_program_without_one(tmp_path: Path):
    own = {**KEYS, "command": ["python", "train.py"], "launcher": None}
    cases = [*declared(), *declared_by([((), own)], function="test_own")]
    asked, unfit = as_asked(cases, settings_of("--dlperf-launcher=mpirun", folder=tmp_path))
    assert [case.launcher for case in asked] == ["mpirun", "none"]
    assert unfit == {}
