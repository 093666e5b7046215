"""A test is bare, and so measured in rounds, where nothing of the project runs before its case."""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest

from tests.helpers.perf_project import PerfProject

MARK = """
import os
import pytest
from pytest_dlperf import Dlperf

CASE = pytest.mark.dlperf("w:build", suite="n{number}", layout="1n1c", batch_size_per_device=4)
"""
BODY = "\n@CASE\ndef test_net(dlperf):\n    dlperf.run()\n"
METHOD = "\nclass TestNet:\n    @CASE\n    def test_net(self, dlperf):\n        dlperf.run()\n"
DECORATOR = """
def with_server(function):
    import functools
    @functools.wraps(function)
    def started(dlperf):
        function(dlperf)
    return started
"""
INDIRECT = """
@pytest.fixture
def seq(request):
    return request.param

@pytest.mark.parametrize("seq", [16], indirect=True)
@CASE
def test_net(dlperf, seq):
    dlperf.run()
"""
OVERRIDDEN = "\n@pytest.fixture\ndef dlperf(dlperf):\n    return dlperf\n"


AUTOUSE = "\n@pytest.fixture(autouse=True)\ndef server():\n    pass\n"


class Project(NamedTuple):
    """A folder with one test; whether that is bare."""

    is_bare: bool
    test: str = BODY
    conftest: str = ""
    package: str = ""


def hook(text: str) -> str:
    return f"def {text}:\n    pass\n"


PROJECTS = {
    "a function": Project(True),
    "a method": Project(True, METHOD),
    "a docstring": Project(True, BODY.replace("    dlperf", '    """Train."""\n    dlperf')),
    "an outcome": Project(
        True, BODY.replace("    dlperf", "    outcome = dlperf").replace("f):", "f: Dlperf):")
    ),
    "a parameter": Project(
        True,
        "\n@pytest.mark.parametrize('seq', [16])" + BODY.replace("perf):", "perf, seq, request):"),
    ),
    "setup_module": Project(False, hook("setup_module(_)") + BODY),
    "setup_function": Project(False, hook("setup_function(_)") + BODY),
    "teardown_function": Project(False, hook("teardown_function(_)") + BODY),
    "setup_method": Project(False, METHOD + "    def setup_method(self):\n        pass\n"),
    "setup_class": Project(
        False, METHOD + "    @classmethod\n    def setup_class(cls):\n        pass\n"
    ),
    "setup_module of a package": Project(False, package=hook("setup_module()")),
    "tearDownModule of a package": Project(False, package=hook("tearDownModule()")),
    "a statement": Project(
        False, BODY.replace("    dlperf", "    os.environ['A'] = '1'\n    dlperf")
    ),
    "a condition": Project(False, BODY.replace("    dlperf", "    if os.name:\n        dlperf")),
    "an argument": Project(False, BODY.replace("dlperf.run()", "print(os.sep, dlperf.run())")),
    "a decorator": Project(False, DECORATOR + BODY.replace("CASE", "CASE\n@with_server")),
    "tmp_path": Project(False, BODY.replace("(dlperf)", "(dlperf, tmp_path)")),
    "an indirect parameter": Project(False, INDIRECT),
    "an overridden dlperf": Project(False, OVERRIDDEN + BODY),
    "a fixture for all": Project(False, AUTOUSE + BODY),
    "a fixture of a conftest": Project(False, conftest="import pytest\n" + AUTOUSE),
    "skipif": Project(False, BODY.replace("@CASE", "@CASE\n@pytest.mark.skipif('0')")),
    **{
        text.partition("(")[0]: Project(False, conftest=hook(text))
        for text in (
            "pytest_runtestloop(session)",
            "pytest_runtest_protocol(item)",
            "pytest_runtest_logstart(nodeid)",
            "pytest_runtest_setup(item)",
            "pytest_runtest_call(item)",
            "pytest_runtest_teardown(item)",
            "pytest_pyfunc_call(pyfuncitem)",
            "pytest_fixture_setup(request)",
        )
    },
    # What reads the report of a test comes after it
    "pytest_runtest_logreport": Project(True, conftest=hook("pytest_runtest_logreport(report)")),
}
SHOW = """
import json
from pytest_dlperf.session.rounds import is_bare

def pytest_collection_finish(session):
    found = {item.path.parent.name: is_bare(item, session.config.rootpath)
             for item in session.items}
    with open("found.json", "w") as file:
        json.dump(found, file)
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bool]:
    """What a session finds of every project: each is a folder, whose conftest is its own."""
    made = PerfProject(tmp_path_factory.mktemp("projects"))
    made.write_file("show.py", SHOW)
    made.write_file("pytest.ini", "[pytest]\n")
    for number, project in enumerate(PROJECTS.values()):
        made.path.joinpath(f"n{number}").mkdir()
        made.write_file(f"n{number}/__init__.py", project.package)
        made.write_file(f"n{number}/conftest.py", project.conftest)
        made.write_file(f"n{number}/test_net.py", MARK.format(number=number) + project.test)
    result = made.session("--collect-only", "-q", "--cpus=1", "-p", "show")
    assert result.ret == 0, result.stdout.str()
    of_folders: dict[str, bool] = json.loads((made.path / "found.json").read_text())
    return {name: of_folders[f"n{number}"] for number, name in enumerate(PROJECTS)}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROJECTS)
def test_a_test_is_bare_where_nothing_of_the_project_runs_before_it(
    found: dict[str, bool], name: str
):
    assert found[name] == PROJECTS[name].is_bare
