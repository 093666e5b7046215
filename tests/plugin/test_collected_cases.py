"""What is marked and can be no case is refused at collection, each with what to write."""

from __future__ import annotations

import pytest

from tests.helpers.fake_suite import Suite

MARK = "pytest.mark.dlperf('w:build', launcher='torchrun', layout='1n1c', batch_size_per_device=4)"
NO_CASES = f"""
import unittest

import pytest

mark = {MARK}


class TestOne(unittest.TestCase):
    @mark
    def test_one(self):
        pass


@mark
class TestTwo(unittest.IsolatedAsyncioTestCase):
    async def test_two(self):
        pass


def test_late():
    pass


def test_plain():
    pass
"""
#: Items of a collector of one's own, and a marker that is added after the collection.
CONFTEST = f"""
import pytest


class Page(pytest.Item):
    def runtest(self):
        pass


class Pages(pytest.File):
    def collect(self):
        page = Page.from_parent(self, name="page")
        page.add_marker({MARK})
        yield page


def pytest_collect_file(file_path, parent):
    if file_path.suffix == ".page":
        return Pages.from_parent(parent, path=file_path)


def pytest_collection_modifyitems(items):
    for item in items:
        if item.name == "test_late":
            item.add_marker({MARK})
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "extra", [(), pytest.param(("-n1",), marks=pytest.mark.nightly)], ids=["alone", "xdist"]
)
def test_a_marked_item_that_is_no_case_is_an_error(suite: Suite, extra: tuple[str, ...]):
    suite.write(NO_CASES)
    suite.write_file("conftest.py", CONFTEST)
    suite.write_file("a.page", "")
    result = suite.run("--dlperf-strict", *extra)
    assert result.ret == (1 if extra else 2)
    text = result.stdout.str()
    for node_id, words in (
        ("test_net.py::TestOne::test_one", "a method of unittest.TestCase is marked dlperf"),
        ("test_net.py::TestTwo::test_two", "a class that is not a TestCase: def test_two(dlperf)"),
        ("test_net.py::test_late", "the marker was added after pytest had asked for cases"),
        ("a.page::page", "is not a function but a Page (conftest)"),
    ):
        line = next(line for line in text.splitlines() if line.startswith(f"{node_id}: "))
        assert words in line
    assert "test_plain: " not in text
    # What was deselected is nobody's concern
    assert suite.run("-k", "plain", *extra).ret == 0


@pytest.mark.slow
def test_an_async_function_is_no_case(suite: Suite):
    suite.write(f"import pytest\n@{MARK}\nasync def test_net(dlperf):\n    dlperf.run()\n")
    result = suite.run()
    assert result.ret == 2
    result.stdout.fnmatch_lines(["*write def in place of async def*"])


@pytest.mark.slow
def test_ids_that_cannot_be_are_refused_with_what_tells_the_cases_apart(suite: Suite):
    suite.write(
        f"""
        import pytest
        mark = {MARK}

        @mark
        @pytest.mark.parametrize("data", ["a/b", "a b"])
        def test_words(dlperf, data):
            dlperf.run()

        @pytest.fixture(params=[1, 2])
        def server(request):
            return request.param

        @mark
        def test_server(dlperf, server):
            dlperf.run()

        @mark
        @pytest.mark.parametrize("data", [pytest.param("x", id="x" * 180)])
        def test_long(dlperf, data):
            dlperf.run()
        """
    )
    result = suite.run()
    assert result.ret == 4
    text = result.stderr.str()
    assert "Traceback" not in text
    for words in (
        "Give their parameters ids that differ in letters and digits (ids=",
        "The parameters of a fixture (server) are not part of an id; parametrize the test itself",
        "has 205 bytes, and as the name of its files it has at most 200; give the parameters",
    ):
        assert words in text


@pytest.mark.slow
@pytest.mark.parametrize(
    "option", ["--setup-plan", pytest.param("--setup-only", marks=pytest.mark.nightly)]
)
def test_a_session_that_only_sets_up_fails_nothing(suite: Suite, option: str):
    result = suite.run(option, "--dlperf-strict", "-q")
    assert result.ret == 0
    assert "never ran" not in result.stdout.str()
