from __future__ import annotations

import pytest

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.place import NodePart, Place

FOLDERS = {"workdir": "/w/.dlperf", "rootdir": "/w"}


def place(prefix: str | None = None, python: str | None = None) -> Place:
    return Place.parse(prefix=prefix, python=python, own_python="/v/bin/python", folders=FOLDERS)


def test_without_options_ranks_start_as_pytest_did():
    assert place() == Place(python="/v/bin/python")
    assert not place(python="/v/bin/python").foreign


def test_another_interpreter_is_foreign():
    found = place(python="/other/python")
    assert (found.python, found.prefix, found.foreign) == ("/other/python", (), True)
    assert found.words == "with /other/python"


def test_a_prefix_is_split_and_filled_in_and_kept_as_given():
    text = "docker run -v {workdir}:{workdir} -w '{rootdir}/my data' --label={x} image"
    found = place(text)
    assert found.prefix == (
        "docker", "run", "-v", "/w/.dlperf:/w/.dlperf", "-w", "/w/my data", "--label={x}", "image",
    )  # fmt: skip
    assert found.prefix_text == text
    assert (found.python, found.foreign) == ("python3", True)
    assert place("nice", "/p").python == "/p"


def test_an_empty_prefix_is_none():
    assert place("  ") == place()


def test_a_prefix_that_no_shell_would_take():
    with pytest.raises(UsageError, match="No closing quotation"):
        place("docker 'run")


def test_a_share():
    assert NodePart.parse(None, None) is None
    part = NodePart.parse("3", "10.11.0.2:29500")
    assert part == NodePart(node_rank=3, master_addr="10.11.0.2", master_port=29500)
    assert NodePart.parse("0", "[::1]:29500") == NodePart(
        node_rank=0, master_addr="[::1]", master_port=29500
    )


def test_nodes_of_one_training_share_a_folder_and_others_do_not():
    names = {
        NodePart(node_rank=rank, master_addr=address, master_port=port).name
        for rank, address, port in [(0, "a", 1), (1, "a", 1), (0, "[fe80::1]", 1), (0, "a", 2)]
    }
    assert names == {"nodes-a-1", "nodes-a-2", "nodes-fe80..1-1"}
