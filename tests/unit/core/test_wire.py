"""What the pytest side and a rank send each other: both sides' use of it, and its cost."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from pytest_dlperf.core import wire
from pytest_dlperf.core.frameworks import FRAMEWORKS
from pytest_dlperf.core.wire import MarkSettings, RankArguments
from pytest_dlperf.core.wire_records import RecordKind, RecordsByKind

PLACE = ("RANK", "LOCAL_RANK", "WORLD_SIZE")
ARGUMENTS = RankArguments(
    framework="torch",
    workload="m:build",
    precision="fp32",
    device="cpu",
    size="full",
    loss="falls",
    batch_size_per_device=4,
    world_size=2,
    iterations=20,
    warmup=0,
    threads_per_rank=1,
    collective_timeout_s=2.5,
    seed=1,
    records="/runs/r 1",
    place_from=PLACE,
)


def imported_with(module: str) -> dict[str, str]:
    """Return the modules of this package that come with ``module``, and their files."""
    text = (
        f"import {module}, sys\n"
        "for name, one in sorted(sys.modules.items()):\n"
        "    if name.startswith('pytest_dlperf'): print(name, one.__file__)"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


def test_flags_are_read_as_they_were_written() -> None:
    assert RankArguments.of_flags(ARGUMENTS.flags()) == ARGUMENTS
    assert "--warmup=0" in ARGUMENTS.flags()
    assert "--scaling" not in ARGUMENTS.flags()
    assert not any(flag.startswith(("--work=", "--uncounted")) for flag in ARGUMENTS.flags())
    optional = RankArguments(
        **{
            **vars(ARGUMENTS),
            "options": {"res": "a b", "shift": 8},
            "data": "/data",
            "scaling": True,
            "inject": 0.05,
            "work": 1234567,
            "uncounted_unit": "tokens",
        }
    )
    assert RankArguments.of_flags(optional.flags()) == optional
    assert optional.flags()[-4:] == (
        '--options={"res": "a b", "shift": 8}',
        "--data=/data",
        "--scaling",
        "--inject=0.05",
    )


def test_a_missing_flag_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        RankArguments.of_flags(ARGUMENTS.flags()[1:])
    assert "--framework" in capsys.readouterr().err


def test_settings_of_marks_are_read_as_they_were_written() -> None:
    settings = MarkSettings("/runs/r1", 20, 10, 4.0, 2, PLACE, "torch")
    assert MarkSettings.of_json(settings.to_json()) == settings


def test_every_kind_of_record_has_a_type() -> None:
    assert set(get_args(RecordKind)) == set(RecordsByKind.__annotations__)


def test_files_of_a_rank_are_found_by_their_names() -> None:
    name = wire.rank_file(12, "progress")
    assert Path(name).match(wire.rank_files("progress"))
    assert wire.rank_of_file(name) == 12


def test_it_comes_alone() -> None:
    assert list(imported_with("pytest_dlperf.core.wire")) == [
        "pytest_dlperf",
        "pytest_dlperf.core",
        "pytest_dlperf.core.wire",
    ]


#: Not in ``typing`` of Python 3.7.
NEWER = {"Final", "Literal", "Protocol", "TypedDict", "runtime_checkable", "final"}


def test_a_probe_loads_on_python_3_7_which_it_has_to_report() -> None:
    asked = [f"pytest_dlperf.worker.frameworks.{name}" for name in FRAMEWORKS]
    modules = {
        name: file
        for module in ("pytest_dlperf.worker.probe", *asked)
        for name, file in imported_with(module).items()
    }
    assert {"pytest_dlperf.core.frameworks", *asked} <= set(modules)
    for name, file in modules.items():
        text = Path(file).read_text(encoding="utf-8")
        tree = ast.parse(text, feature_version=(3, 7))
        imported = {
            alias.name
            for node in tree.body
            if isinstance(node, ast.ImportFrom) and node.module == "typing"
            for alias in node.names
        }
        assert not imported & NEWER, name
        # ``dataclass`` has these from Python 3.10 on.
        assert "kw_only=" not in text, name
        assert "slots=" not in text, name
