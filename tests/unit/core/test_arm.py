from __future__ import annotations

import pytest

from pytest_dlperf.core.arm import (
    InterpreterArm,
    RefArm,
    RequirementArm,
    SettingsArm,
    Tree,
    parse_arm,
)
from pytest_dlperf.core.errors import UsageError


@pytest.mark.parametrize(
    "text", ["HEAD", "HEAD~2", "HEAD^", "HEAD@{1}", "v1.2.0", "topic/fast", "a1b2c3d"]
)
def test_refs(text: str):
    assert parse_arm(text, what="x") == RefArm(ref=text)


def test_a_merge_base():
    arm = parse_arm("merge-base:origin/main", what="x")
    assert arm == RefArm(ref="origin/main", base_of=True)
    assert arm.name == "merge-base:origin/main"


@pytest.mark.parametrize(
    "text",
    [
        "torch==2.13.0",
        "torch>=2.1,<2.3",
        "torch[opt]~=2.1",
        "torch[opt]",
        "net @ file:///home/me/net",
        "net@https://example.org/net.tar.gz",
        "dist/net-1-py3-none-any.whl",
        "/dist/net-1.tar.gz",
        "https://example.org/net-1-py3-none-any.whl",
        "git+file:///home/me/net@main",
        "git+https://example.org/net.git@main",
    ],
)
def test_requirements(text: str):
    assert parse_arm(text, what="x") == RequirementArm(requirement=text)


@pytest.mark.parametrize(
    "text",
    [
        "/usr/bin/python3",
        ".venv/bin/python",
        "./py",
        "./venv/bin/python",
        "./mypkg",
        "~/env/bin/python3.12",
        "python3.11",
    ],
)
def test_interpreters(text: str):
    assert parse_arm(text, what="x") == InterpreterArm(python=text)


def test_settings():
    arm = parse_arm("OMP_NUM_THREADS=2  TOKEN='a b' EMPTY=", what="x")
    assert arm == SettingsArm(
        variables=(("OMP_NUM_THREADS", "2"), ("TOKEN", "a b"), ("EMPTY", ""))
    )
    assert "OMP_NUM_THREADS=2" in arm.name
    assert "a b" not in arm.name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is empty"),
        ("merge-base:", "not an arm"),
        ("--upload-pack=x", "not an arm"),
        ("main..topic", "not an arm"),
        ("my branch", "not an arm"),
        ("A=1 A=2", "A is set twice"),
        ("A=1 =2", "does not set a variable"),
        ("A='1", "quote it"),
        ("DLPERF_RUN=/x", "is set for the ranks by this tool"),
    ],
)
def test_what_is_no_arm(text: str, message: str):
    with pytest.raises(UsageError, match=message) as raised:
        parse_arm(text, what="--dlperf-against")
    assert str(raised.value).startswith("--dlperf-against")


def test_a_tree_stands_in_for_the_repositorys_own():
    tree = Tree(head="/r", arm="/r/.dlperf/arms/c")
    assert tree.moved("/r") == "/r/.dlperf/arms/c"
    assert tree.moved("/r/perf/net") == "/r/.dlperf/arms/c/perf/net"
    assert tree.moved("/rest") == "/rest"
    assert tree.moved("/r/.venv/lib/site-packages") == "/r/.venv/lib/site-packages"
