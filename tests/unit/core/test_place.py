from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.layout import Layout
from pytest_dlperf.core.place import (
    Host,
    NodePart,
    Place,
    hosts_of,
    masked,
    parse_hostfile,
    parse_hosts,
)
from pytest_dlperf.core.run import LaunchPlan
from pytest_dlperf.launch.remote.over_hosts import commands_on

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


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("docker run -e TOKEN=hunter2 -e HOME image", "docker run -e TOKEN=… -e HOME image"),
        ("docker run --env=TOKEN=a=b -eKEY=c image", "docker run --env=TOKEN=… -eKEY=… image"),
        ("env OMP_NUM_THREADS=4 KEY=x python", "env OMP_NUM_THREADS=4 KEY=… python"),
        ("docker run --gpus=all --shm-size=8g i", "docker run --gpus=all --shm-size=8g i"),
        ("env -u A 'nice thing'", "env -u A 'nice thing'"),
    ],
)
def test_values_are_masked_and_nothing_else(command: str, shown: str) -> None:
    assert masked(command) == shown


TWO = (Host(name="n1", devices=8), Host(name="10.0.0.2", devices=8))


def test_hosts_are_read():
    assert parse_hosts("n1:8, 10.0.0.2:8") == TWO


@pytest.mark.parametrize("text", ["", "n1", "n1:0", "n1:x", "n1:8,,n2:8", "n1;ls:8", "-n:8"])
def test_what_is_no_host(text: str):
    with pytest.raises(UsageError, match="write n1:8,n2:8"):
        parse_hosts(text)


def test_a_host_listed_twice():
    with pytest.raises(UsageError, match="n1 is listed twice"):
        parse_hosts("n1:8,n2:8,n1:4")


def test_a_layout_takes_the_first_hosts_and_what_it_needs_of_them():
    assert hosts_of(Layout.parse("1n4g"), TWO) == (Host(name="n1", devices=4),)
    with pytest.raises(UsageError, match="4n8g needs 4 nodes, and there are 2 hosts"):
        hosts_of(Layout.parse("4n8g"), TWO)
    with pytest.raises(UsageError, match="16 devices on each node, n1 has 8"):
        hosts_of(Layout.parse("2n16g"), TWO)


def plan(*argv: str) -> LaunchPlan:
    return LaunchPlan(case_id="case", argv=argv, env={}, workdir="w", timeout_s=1.0)


def test_a_hostfile_has_a_line_for_each():
    text = "# nodes\nn1 slots=8\n\nn2:4  # half of it\n10.0.0.3 slots=2 max_slots=4\n"
    assert parse_hostfile(text) == (
        Host(name="n1", devices=8), Host(name="n2", devices=4), Host(name="10.0.0.3", devices=2),
    )  # fmt: skip
    with pytest.raises(UsageError, match="'n1;reboot:8' is not a host"):
        parse_hostfile("n1;reboot slots=8")
    with pytest.raises(UsageError, match="names no host"):
        parse_hostfile("# none\n")


def test_a_launcher_of_one_node_is_started_on_every_host():
    argv = ("torchrun", "--node-rank=${NODE_RANK}", "--master=${MASTER_ADDR}:${MASTER_PORT}")
    assert commands_on(TWO, plan(*argv)) == [
        (TWO[0], ("torchrun", "--node-rank=0", "--master=n1:29500")),
        (TWO[1], ("torchrun", "--node-rank=1", "--master=n1:29500")),
    ]


def test_a_launcher_of_all_nodes_is_started_on_the_first():
    [(host, argv)] = commands_on(
        TWO, replace(plan("horovodrun", "--hosts=${HOSTS}"), starts_all_nodes=True)
    )
    assert host.name == "n1"
    assert argv == ("horovodrun", "--hosts=n1:8,10.0.0.2:8")
