from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.launch.remote import rsh_agent, with_environment
from pytest_dlperf.launch.remote.sent_to_hosts import copy_package, program_in_copy


def test_the_copy_holds_the_worker_and_nothing_that_is_installed_beside_it(tmp_path: Path):
    copy_package(tmp_path / "package")
    copy_package(tmp_path / "package")
    assert [path.name for path in (tmp_path / "package").iterdir()] == ["pytest_dlperf"]
    where = "import pytest_dlperf.worker as w, sys; print(w.__file__, 'numpy' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", where],
        env={"PYTHONPATH": str(tmp_path / "package")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [
        str(tmp_path / "package" / "pytest_dlperf" / "worker" / "__init__.py"),
        "False",
    ]


def test_programs_that_nodes_start_by_their_path_are_in_the_copy(tmp_path: Path):
    copy_package(tmp_path)
    for program in (rsh_agent, with_environment):
        assert program.__file__ is not None
        copied = program_in_copy(tmp_path, program)
        assert copied.is_relative_to(tmp_path)
        assert copied.read_text() == Path(program.__file__).read_text()


def test_a_folder_that_cannot_be_written(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(CaseError, match="cannot copy the worker to"):
        copy_package(tmp_path / "file")
