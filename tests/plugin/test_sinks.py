"""A session with sinks: the exit code is what it was, and each sink has a line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.helpers.fake_suite import Suite


@pytest.fixture
def package(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A distribution with a sink that works, and one that ends everything it can."""
    folder = suite.path / "installed"
    info = folder / "our_sinks-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "our_sinks.py").write_text(
        "import json, os, pathlib\n"
        "def takes(results):\n"
        "    pathlib.Path(os.environ['TAKEN']).open('a').write(json.dumps(results) + '\\n')\n"
        "def dies(results): os._exit(7)\n"
    )
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: our-sinks\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[pytest_dlperf.sinks]\ntakes = our_sinks:takes\ndies = our_sinks:dies\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=":")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("TAKEN", str(suite.path / "taken.jsonl"))
    return suite.path


@pytest.mark.slow
def test_a_sink_gets_what_the_results_file_has_once(suite: Suite, package: Path):
    done, _ = suite.outcomes("--dlperf-runs=1", "--dlperf-sink=takes", "--dlperf-sink=takes")
    done.stdout.fnmatch_lines(["sink takes: sent"])
    (sent,) = (package / "taken.jsonl").read_text().splitlines()
    file = next(package.glob("*.json"))
    assert json.loads(sent) == json.loads(file.read_text())


@pytest.mark.slow
@pytest.mark.parametrize("fails", [pytest.param(False, marks=pytest.mark.nightly), True])
def test_broken_sinks_do_not_change_the_exit_code(suite: Suite, package: Path, fails: bool):
    options = ["--dlperf-runs=1", "--dlperf-strict"] if fails else ["--dlperf-runs=1"]
    alone = suite.run(*options)
    sinks = suite.run(*options, "--dlperf-sink=dies", "--dlperf-sink=webhook", "-q")
    sinks.stdout.fnmatch_lines(
        [
            "sink dies NOT sent: its process ended with exit code 7",
            "sink webhook NOT sent: ValueError: DLPERF_WEBHOOK is not set; put the address there",
        ]
    )
    assert (int(alone.ret), int(sinks.ret)) == (int(fails), int(fails))


def test_a_name_of_no_sink_is_an_error_before_anything_runs(suite: Suite, package: Path):
    done = suite.run("--dlperf-sink=mail")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["*--dlperf-sink=mail: no such sink; known are webhook, chat*"])
    assert not (package / ".dlperf").exists()


@pytest.mark.slow
def test_off_clears_the_sinks_of_the_ini_file(suite: Suite, package: Path):
    ini = package / "pytest.ini"
    ini.write_text("[pytest]\naddopts = --dlperf-sink=takes\n")
    suite.run("--dlperf-runs=1", "--dlperf-sink=off")
    assert not (package / "taken.jsonl").exists()
