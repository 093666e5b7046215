"""What counts as another environment than that of the stored session, and what does not."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pytest_dlperf.core.baseline import Session
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.measurement import Environment
from pytest_dlperf.core.packages import package_changes, packages_digest
from pytest_dlperf.core.secret_texts import MASK
from pytest_dlperf.flow.environment_change import EnvironmentChange, environment_change, words_of
from pytest_dlperf.flow.package_pairs import ByPackages, change_since
from tests.helpers.judge_builders import case
from tests.helpers.repository import Repository

TORCH = case()
LISTS = {"torch": "2.12.1", "numpy": "2.0"}, {"torch": "2.13.0", "numpy": "2.1"}


def change(
    was: dict[str, str],
    now: dict[str, str],
    *,
    machine: tuple[dict[str, str], dict[str, str]] = ({}, {}),
    packages: tuple[dict[str, str], dict[str, str]] = ({}, {}),
    own: tuple[str, ...] = (),
) -> EnvironmentChange:
    if packages[0]:
        was, now = (
            {**one, "packages": packages_digest(several)}
            for one, several in zip((was, now), packages, strict=True)
        )
    session = Session(time="2026-11-01T00:00:00Z", runs=(1.0,), software=was, machine=machine[0])
    environment = Environment(
        machine_class="x", hardware="x", node="n", software=now, machine=machine[1],
        packages=packages[1],
    )  # fmt: skip
    return environment_change(TORCH, session, environment, package_changes(*packages), own=own)


@pytest.mark.parametrize("known", [(), (0,), (1,), (0, 1)])
def test_packages_that_were_not_recorded_are_not_equal(known: tuple[int, ...]) -> None:
    """Those of a program that is read by its log, and of former versions."""
    software = [{"packages": "1a2b"} if side in known else {} for side in (0, 1)]
    found = change(*software)
    assert found.words == ()
    assert bool(found.unknown) is (known != (0, 1))


@pytest.mark.parametrize(
    ("name", "was", "now"),
    [
        ("driver", "550", "560"),
        ("kernel", "5.15", "6.1"),
        ("image", "ours:1", "ours:2"),
        ("python", "3.11.4", "3.11.9"),
        ("cuda", "12.4", "12.6"),
        ("tf32 in force", "cudnn on", "cudnn off"),
        ("cudnn.benchmark", "on", "off"),
        ("NCCL_ALGO", "Ring", "Tree"),
    ],
)
def test_software_that_differs_is_named_with_both_values(name: str, was: str, now: str):
    assert change({name: was}, {name: now}).words == (f"{name} {was} became {now}",)


@pytest.mark.parametrize("name", ["cpu", "os", "gpu power limit", "gpu clocks set", "container"])
def test_so_is_the_machine(name: str):
    found = change({}, {}, machine=({name: "a"}, {name: "b"}))
    assert found.words == (f"{name} a became b",)


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ({"gpu samples": "none: no nvidia-ml-py"}, {"gpu samples": "nvidia-ml-py 12"}),
        ({"timing": "host clock"}, {"timing": "events"}),
        ({"TORCH_HOME": "/builds/1"}, {"TORCH_HOME": "/builds/2"}),
        ({"CUDA_MPS_PIPE_DIRECTORY": "/tmp/1"}, {"CUDA_MPS_PIPE_DIRECTORY": "/tmp/2"}),
        ({"NCCL_TOKEN": "plain"}, {"NCCL_TOKEN": MASK}),
        ({"driver": "550"}, {}),
        ({}, {"driver": "550"}),
        # Without a list of packages nobody knows which variables were set
        ({}, {"NCCL_ALGO": "Ring"}),
    ],
)
def test_what_varies_by_itself_or_is_not_known_is_no_change(
    was: dict[str, str], now: dict[str, str]
):
    assert change(was, now).words == ()


def test_nor_is_the_memory_that_a_kernel_leaves():
    assert change({}, {}, machine=({"memory": "31 GiB"}, {"memory": "32 GiB"})).words == ()


def test_a_variable_that_is_newly_set_counts_where_settings_are_known():
    same = {"a": "1"}, {"a": "1"}
    found = change({}, {"NCCL_ALGO": "Ring"}, packages=same)
    assert found.words == ("NCCL_ALGO (not set) became Ring",)
    found = change({"NCCL_ALGO": "Ring"}, {}, packages=same)
    assert found.words == ("NCCL_ALGO Ring became (not set)",)


def test_packages_count_once_and_the_frameworks_own_is_named():
    found = change({"torch": "2.12.1"}, {"torch": "2.13.0"}, packages=LISTS)
    assert found.words == ("torch 2.12.1 became 2.13.0 (and 1 more)",)
    assert found.measured_by == "--dlperf-against='torch==2.12.1'"
    assert [one.name for one in found.exchanged] == ["torch", "numpy"]


def test_other_packages_are_measured_by_the_option():
    found = change({}, {}, packages=({"numpy": "2.0", "old": "1"}, {"numpy": "2.1", "new": "1"}))
    assert found.words == ("new 1 is new (and 2 more)",)
    assert found.measured_by == "--dlperf-confirm=packages"
    assert [one.name for one in found.exchanged] == ["numpy", "old"], "a new one stays"


def test_a_list_that_is_lost_is_said():
    found = change({"packages": "a (1)"}, {"packages": "b (1)"})
    assert found.words == ("installed packages changed",)
    assert found.are_packages_unknown
    with_framework = change(
        {"packages": "a (1)", "torch": "2.12"}, {"packages": "b (1)", "torch": "2.13"}
    )
    assert with_framework.words == ("torch 2.12 became 2.13",)
    assert with_framework.measured_by == "--dlperf-against='torch==2.12'"


def test_the_repositorys_own_package_is_code_and_this_plugin_cannot_be_exchanged():
    lists = {"net": "0.1.dev1", "pytest-dlperf": "1"}, {"net": "0.1.dev2", "pytest-dlperf": "2"}
    found = change({}, {}, packages=lists, own=("net",))
    assert found.words == ("pytest-dlperf 1 became 2",)
    assert (found.exchanged, found.measured_by) == ((), "")


def test_what_the_code_of_before_has_as_well_is_left():
    session = Session(
        time="", runs=(1.0,), software={"tf32 in force": "on", "driver": "550", "cuda": "12.4"}
    )
    found = change(dict(session.software), {"tf32 in force": "off", "driver": "560", "cuda": "13"})
    before = {"tf32 in force": "on", "driver": "560", "cuda": "13"}
    assert set(found.without_that_of(session, before).settings) == {"driver", "cuda"}


def test_words_of_packages():
    (gone, _) = package_changes({"a": "1"}, {"b": "1"})
    assert words_of([gone]) == "a 1 is gone"


def by_packages(
    top: Path, found: EnvironmentChange, *, python: str = sys.executable, was: str = ""
) -> ByPackages:
    place = SimpleNamespace(foreign=False, python=python)
    stored = SimpleNamespace(packages_since=lambda *_: found.packages)
    bench = SimpleNamespace(hosts=SimpleNamespace(place=place, rootdir=top), stored=stored)
    session = Session(time="", runs=(1.0,), software={"python": was} if was else {})
    return ByPackages(
        case=TORCH, bench=cast("Any", bench), session=session, change=found, workload_folder=""
    )


@pytest.mark.parametrize(
    ("found", "was", "words"),
    [
        (change({"packages": "a (1)"}, {"packages": "b (1)"}), "", "their list is not in"),
        (change({}, {}, packages=LISTS), "2.7.18", r"it ran on Python 2\.7, and this is 3\."),
    ],
)
def test_why_no_packages_can_be_exchanged(
    tmp_path: Path, found: EnvironmentChange, was: str, words: str
):
    with pytest.raises(CaseError, match=words):
        by_packages(tmp_path, found, was=was)._check_possible()


def installed_from(python: Path, name: str, folder: Path) -> None:
    """What pip leaves of an editable install."""
    (site,) = python.parents[1].glob("lib/*/site-packages")
    info = site / f"{name}-2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 2\n")
    url = {"url": folder.as_uri(), "dir_info": {"editable": True}}
    (info / "direct_url.json").write_text(json.dumps(url))


def test_an_editable_package_stays_and_one_of_this_repository_is_code(tmp_path: Path):
    top = Repository(tmp_path / "r").path
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "v"], check=True)
    python = tmp_path / "v/bin/python"
    installed_from(python, "net", top / "src")
    installed_from(python, "far", tmp_path / "far")
    names = ("net", "far", "x")
    lists = dict.fromkeys(names, "1"), dict.fromkeys(names, "2")
    asked = by_packages(top, change({}, {}, packages=lists), python=str(python))
    environment = Environment(machine_class="x", hardware="x", node="n", software={}, machine={})
    found = change_since(TORCH, asked.bench, asked.session, environment)
    assert found.words == ("far 1 became 2 (and 1 more)",)
    assert [one.name for one in replace(asked, change=found)._exchanged] == ["x"]
    far = replace(found, packages=found.packages[:1])
    with pytest.raises(CaseError, match=r"editable packages cannot be exchanged \(far\)"):
        replace(asked, change=far)._check_possible()
