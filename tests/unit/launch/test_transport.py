from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.place import Host
from pytest_dlperf.launch.remote import network, transport
from pytest_dlperf.launch.remote.rsh_agent import parse
from pytest_dlperf.launch.remote.transport import allocated_hosts, is_this_host, transport_of


def test_this_host_is_reached_without_anything():
    assert transport_of(ssh=None, python="python3", slurm_job="").reach("localhost").argv == ()
    assert not is_this_host("no-such-host.invalid")


def test_the_users_own_words_come_before_ours():
    reach = transport_of(ssh="ssh -F 'my config' -p 2222", python="/p", slurm_job="").away("n2")
    assert reach.argv[:5] == ("ssh", "-F", "my config", "-p", "2222")
    assert reach.argv[-1] == "n2"
    assert reach.shell
    with pytest.raises(UsageError, match="quote it as in a shell"):
        transport_of(ssh="ssh 'open", python="/p", slurm_job="")


def test_within_an_allocation_srun_reaches_them():
    reach = transport_of(ssh=None, python="/p", slurm_job="12").away("n2")
    assert reach.argv[0] == "srun"
    assert {"--jobid=12", "--nodelist=n2", "--overlap"} <= set(reach.argv)
    assert not reach.shell


def test_hosts_of_an_allocation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    fake = tmp_path / "scontrol"
    fake.write_text('#!/bin/sh\n[ "$3" = "n[1-2]" ] && printf "n1\\nn2\\n"\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    job = {"SLURM_JOB_NODELIST": "n[1-2]", "SLURM_JOB_NUM_NODES": "2", "SLURM_CPUS_ON_NODE": "16"}
    assert allocated_hosts(job) == (Host(name="n1", devices=16), Host(name="n2", devices=16))
    assert allocated_hosts({**job, "SLURM_GPUS_ON_NODE": "8"})[0].devices == 8
    assert allocated_hosts({**job, "SLURM_JOB_NUM_NODES": "1"}) == ()
    assert allocated_hosts({}) == ()


def test_a_controller_of_slurm_that_does_not_answer_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "scontrol").write_text("#!/bin/sh\nexec sleep 600\n")
    (tmp_path / "scontrol").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(transport, "_SCONTROL_S", 0.3)
    with pytest.raises(UsageError, match="scontrol did not name the hosts"):
        allocated_hosts({"SLURM_JOB_NODELIST": "n[1-2]", "SLURM_JOB_NUM_NODES": "2"})


def test_calls_of_ssh_are_read_as_launchers_make_them():
    horovod = ["-o", "PasswordAuthentication=no", "-o", "StrictHostKeyChecking=no", "n2",
               "-p", "22", "bash -c 'cd /w ; A=b python -x t.py'"]  # fmt: skip
    assert parse(horovod) == ("n2", "bash -c 'cd /w ; A=b python -x t.py'")
    assert parse(["-x", "me@n2", "PATH=/p ; export PATH ;", "orted", "-mca", "x", "1"]) == (
        "n2", "PATH=/p ; export PATH ; orted -mca x 1",
    )  # fmt: skip


def test_the_network_of_a_node_is_not_its_loopback():
    address = network.own_address("127.0.0.1")
    others = [a for a, _ in network.interfaces().values() if not a.startswith("127.")]
    assert address == (others[0] if others else "")
    if others:
        assert network.interface_to("127.0.0.1") in network.interfaces()
        assert "/" in network.network_to("127.0.0.1")
