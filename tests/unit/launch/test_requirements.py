"""Requirements as arms: what pip makes of them, and which are found again."""

from __future__ import annotations

import functools
import http.server
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_dlperf.core.arm import parse_arm
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.launch.arms.git import Preparation
from pytest_dlperf.launch.arms.make import Arms
from pytest_dlperf.launch.arms.overlay import (
    Installer,
    content_of,
    resolved_by_pip,
    resolved_by_uv,
)
from pytest_dlperf.launch.process.execute import execute
from tests.helpers.repository import Repository, project, wheel

pytestmark = pytest.mark.once

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    (tmp_path / "index").mkdir()


def overlay(path: Path, text: str) -> str:
    """The folder of a new session's arm."""
    arms = Arms(
        folder=path / ".dlperf/arms",
        rootdir=path,
        python=sys.executable,
        preparation=Preparation(),
        execute=execute,
    )
    ready = arms.ready(parse_arm(text, what="x"))
    assert ready.kind == "requirement"
    return ready.overlay


def version(folder: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", "import tinynet, pytest; print(tinynet.version)"],
        env={**os.environ, "PYTHONPATH": folder},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_a_requirement_is_laid_over_this_environment_and_kept(tmp_path: Path):
    path = wheel(tmp_path, "1.0")
    first = overlay(tmp_path, str(path))
    assert version(first) == "1.0"
    installed = Path(first, "tinynet.py").stat().st_ctime_ns
    assert overlay(tmp_path, str(path)) == first
    assert overlay(tmp_path, f"tinynet @ {path.as_uri()}") != first
    assert Path(first, "tinynet.py").stat().st_ctime_ns == installed
    assert not list(tmp_path.glob(".dlperf/arms/packages/*.resolve"))


def test_another_content_of_the_same_file_is_another_arm(tmp_path: Path):
    path = wheel(tmp_path, "1.0")
    first = overlay(tmp_path, str(path))
    path.unlink()
    wheel(tmp_path, "1.0", requires="nothing; extra == 'x'")
    assert overlay(tmp_path, str(path)) != first


@pytest.mark.nightly  # the gate has its main way
def test_a_branch_that_moved_is_another_arm(tmp_path: Path):
    repository = Repository(tmp_path / "r")
    text = f"git+file://{repository.path}@main"
    found = []
    for number in ("1.0", "1.0", "1.1"):
        project(repository.path, number)
        repository.git("add", ".")
        repository.git("commit", "-q", "--allow-empty", "-m", number)
        found.append(overlay(tmp_path, text))
        assert version(found[-1]) == number
    assert overlay(tmp_path, text) == found[-1]
    assert len(set(found)) == 3


def test_what_an_index_has_since_is_another_arm(tmp_path: Path):
    wheel(tmp_path / "index", "1.0")
    first = overlay(tmp_path, "tinynet>=1")
    assert overlay(tmp_path, "tinynet>=1") == first
    wheel(tmp_path / "index", "1.1")
    second = overlay(tmp_path, "tinynet>=1")
    assert (version(first), version(second)) == ("1.0", "1.1")


def test_what_a_requirement_needs_counts_as_well(tmp_path: Path):
    path = wheel(tmp_path, "1.0", requires="helper")
    wheel(tmp_path / "index", "1", name="helper")
    first = overlay(tmp_path, str(path))
    wheel(tmp_path / "index", "2", name="helper")
    second = overlay(tmp_path, str(path))
    assert [Path(folder, "helper.py").read_text() for folder in (first, second)] == [
        "version = '1'\n",
        "version = '2'\n",
    ]


@pytest.mark.parametrize(
    "text",
    # Of each spelling pip builds three times; how a requirement is read is in test_arm.py.
    [
        "./pkg",
        *(
            pytest.param(text, marks=pytest.mark.nightly)
            for text in ("./pkg/", "tinynet @ file://{}/pkg")
        ),
    ],
)
def test_a_folder_is_known_by_its_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
):
    monkeypatch.chdir(tmp_path)
    text = text.format(tmp_path)
    project(tmp_path / "pkg", "1.0")
    first = overlay(tmp_path, text)
    assert version(first) == "1.0"
    for left in ("build/lib/tinynet.py", ".git/HEAD", "tinynet.egg-info/PKG-INFO"):
        (tmp_path / "pkg" / left).parent.mkdir(parents=True)
        (tmp_path / "pkg" / left).write_text("left by a build")
    assert overlay(tmp_path, text) == first
    (tmp_path / "pkg/tinynet.py").write_text("version = 'changed'\n")
    assert version(overlay(tmp_path, text)) == "changed"


def test_a_package_named_build_is_no_leftover(tmp_path: Path):
    (tmp_path / "p/build").mkdir(parents=True)
    (tmp_path / "p/build/__init__.py").write_text("1")
    first = content_of(tmp_path / "p")
    (tmp_path / "p/build/__init__.py").write_text("2")
    assert content_of(tmp_path / "p") != first


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """The address of ``tmp_path``, by HTTP."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_wheel_on_another_machine_is_a_requirement(tmp_path: Path, served: str):
    path = wheel(tmp_path, "1.0")
    assert version(overlay(tmp_path, f"{served}/{path.name}")) == "1.0"


def test_an_editable_install_counts_by_where_it_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    repository = Repository(tmp_path / "edit")
    repository.git("remote", "add", "origin", "https://example.org/edit.git")
    info = tmp_path / "site/edit-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: edit\nVersion: 1\n")
    (info / "RECORD").write_text("")

    def points_to(path: Path) -> None:
        value = {"url": path.as_uri(), "dir_info": {"editable": True}}
        (info / "direct_url.json").write_text(json.dumps(value))

    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"), prepend=os.pathsep)
    points_to(repository.path)
    text = str(wheel(tmp_path, "1.0"))
    first = overlay(tmp_path, text)
    repository.commit("speed = 2\n")
    assert overlay(tmp_path, text) == first
    points_to(tmp_path / "elsewhere")
    assert overlay(tmp_path, text) != first


def test_a_requirement_that_cannot_be_installed_shows_the_last_lines(tmp_path: Path):
    path = wheel(tmp_path, "1.0", requires=f"absent @ file://{tmp_path}/absent-1-py3-none-any.whl")
    with pytest.raises(CaseError, match=r"(?s)cannot be installed.*Log: .*absent-1") as raised:
        overlay(tmp_path, str(path))
    assert "exit code" in str(raised.value)
    assert not list(tmp_path.glob(".dlperf/arms/packages/*.done"))
    [log] = tmp_path.glob(".dlperf/arms/packages/*.resolve/output.log")
    assert log.exists()


def test_what_has_neither_hash_nor_commit_is_never_found_again(tmp_path: Path):
    package: dict[str, Any] = {
        "metadata": {"name": "n", "version": "1"},
        "download_info": {"url": "https://example.org/n.whl", "archive_info": {}},
    }
    report = {"install": [package]}
    unknown = resolved_by_pip(report)
    assert not unknown.is_certain
    # What was resolved and what was installed may be compared all the same.
    assert resolved_by_pip(report) == unknown
    installer = Installer(sys.executable, execute, tmp_path / "packages")
    assert installer.folder_name("n", unknown) != installer.folder_name("n", unknown)
    package["download_info"]["archive_info"] = {"hashes": {"sha256": "a"}}
    found = resolved_by_pip(report)
    assert installer.folder_name("n", found) == installer.folder_name("n", found)
    assert found.packages == ("n 1 sha256=a ",)


def test_what_changes_while_it_is_installed_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    wheel(tmp_path / "index", "1.0")
    installer = Installer(sys.executable, execute, tmp_path / "packages")
    resolved = installer.resolve("tinynet>=1")
    wheel(tmp_path / "index", "1.1")
    with pytest.raises(CaseError, match=r"became something else.*tinynet 1\.0 .*tinynet 1\.1 "):
        installer.install("tinynet>=1", resolved, tmp_path / "packages/x")


def test_pins_of_uv_count_with_the_folders_that_they_name(tmp_path: Path):
    project(tmp_path / "pkg", "1.0")
    pins = f"six==1.17.0 \\\n    --hash=sha256:4\ntinynet @ file://{tmp_path}/pkg\n"
    first = resolved_by_uv(pins, "tinynet")
    assert first.pinned == pins
    assert resolved_by_uv(pins, "tinynet") == first
    project(tmp_path / "pkg", "1.1")
    assert resolved_by_uv(pins, "tinynet").folders != first.folders
    assert resolved_by_uv("./pkg\n", f"{tmp_path}/pkg").folders


def test_an_old_pip_is_distinguished_from_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho pip 22.0.2 from somewhere\n")
    python.chmod(0o700)
    with pytest.raises(CaseError, match=r"has pip 22\.0, which cannot report.* 22\.2 or later"):
        Installer(str(python), execute, tmp_path)
    python.write_text("#!/bin/sh\necho No module named pip >&2; exit 1\n")
    with pytest.raises(CaseError, match=r"has no pip that works[^$]*\n    No module named pip"):
        Installer(str(python), execute, tmp_path)
