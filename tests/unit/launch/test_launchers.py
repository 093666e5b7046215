from __future__ import annotations

from pathlib import Path

import pytest

from pytest_dlperf.cases.marker import expand
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import NotRunError
from pytest_dlperf.core.frameworks import FRAMEWORKS
from pytest_dlperf.launch.base import Launcher
from pytest_dlperf.launch.launchers import LAUNCHERS, check_program, launcher_of


@pytest.fixture
def python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An interpreter's path, and no other program on any."""
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    (tmp_path / "path").mkdir()
    (tmp_path / "env").mkdir()
    return tmp_path / "env" / "python"


def case_of(launcher: str, layout: str = "1n2c", **keys: str) -> Case:
    [case] = expand(
        suite="net",
        workload="m:build",
        batch_size_per_device=1,
        layout=layout,
        launcher=launcher,
        **keys,
    )
    return case


def check(python: Path, launcher: str, layout: str = "1n2c") -> None:
    check_program(case_of(launcher, layout), str(python))


@pytest.mark.parametrize("name", LAUNCHERS)
def test_every_name_is_a_launcher(name: str):
    assert isinstance(launcher_of(case_of(name)), Launcher)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_framework_has_one(framework: str):
    found = launcher_of(case_of("auto", framework=framework))
    assert type(found) is type(launcher_of(case_of(FRAMEWORKS[framework].launcher)))


@pytest.mark.parametrize(
    ("launcher", "remedy"),
    [("torchrun", "pytest-dlperf[torch]"), ("horovodrun", "HOROVOD_WITH_TENSORFLOW=1"),
     ("mpirun", "openmpi-bin")],
)  # fmt: skip
def test_a_launcher_that_is_missing_is_named_with_what_brings_it(
    python: Path, launcher: str, remedy: str
):
    with pytest.raises(NotRunError) as caught:
        check(python, launcher)
    assert str(caught.value).startswith(
        f"{launcher}, which starts the 2 ranks, is neither next to"
    )
    assert remedy in str(caught.value)


@pytest.mark.parametrize("folder", ["path", "env"])
def test_a_launcher_on_path_or_beside_the_interpreter_will_do(python: Path, folder: str):
    program = python.parents[1] / folder / "mpirun"
    program.touch(mode=0o755)
    check(python, "mpirun")


@pytest.mark.parametrize(
    "launcher", ["tf-multiworker", "jax-processes", "paddle.distributed.launch", "local"]
)
def test_launchers_that_are_modules_of_the_interpreter(python: Path, launcher: str):
    check(python, launcher)


def test_one_rank_needs_no_launcher(python: Path):
    check(python, "auto", "1n1c")
