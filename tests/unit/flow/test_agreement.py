from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_dlperf.cases.possible import Installed
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.layout import Layout
from pytest_dlperf.core.place import Host
from pytest_dlperf.flow.nodes import check_agreement, clocks_apart
from pytest_dlperf.flow.target_report import TargetReport
from pytest_dlperf.measure.devices import Devices

HOSTS = (Host(name="n1", devices=1), Host(name="n2", devices=1))
CASE = Case(
    suite="net", framework="torch", precision="fp32", batch_size_per_device=8,
    layout=Layout.parse("2n1c"), workload="net:build",
)  # fmt: skip
REPORT = TargetReport(
    node="n1",
    devices=Devices(
        gpus=(), visible_gpus=0, gpu_problem="", cores=4, visible_cores=4, cpu_name="AMD EPYC"
    ),
    installed=Installed(
        frameworks={"torch": "2.13.0"},
        horovod=False,
        legacy_keras=False,
        float8=False,
        python="3.11",
    ),
    version="",
    python="3.11.7",
    executable="/usr/bin/python3",
    files={"/w/net.py": "abc"},
    programs={"torchrun": "/usr/bin/torchrun"},
)
INSTALLED = REPORT.installed


def check(other: TargetReport, *, mixed: bool = False) -> None:
    check_agreement(CASE, HOSTS, {"n1": REPORT, "n2": other}, mixed=mixed)


def test_nodes_that_are_alike():
    check(REPORT)


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (replace(REPORT, python="3.12.1"), "n2 has Python 3.12.1, n1 has 3.11.7"),
        (
            replace(REPORT, installed=replace(INSTALLED, frameworks={"torch": "2.12.0"})),
            "n2 has torch 2.12.0, n1 has 2.13.0",
        ),
        (replace(REPORT, files={"/w/net.py": "abd"}), "net.py differs between n2 and n1"),
        (replace(REPORT, files={"/w/net.py": None}), "n2 has no /w/net.py"),
        (replace(REPORT, programs={"torchrun": None}), "torchrun, which starts the ranks"),
        (
            replace(REPORT, devices=replace(REPORT.devices, visible_cores=0)),
            "n2 has 0 cores, and 1 are needed",
        ),
        (replace(REPORT, devices=replace(REPORT.devices, cpu_name="Xeon")), "n2 is 4x-xeon"),
    ],
)
def test_what_differs_is_named(other: TargetReport, says: str):
    with pytest.raises(CaseError, match=says):
        check(other)


def test_a_pinned_class_lets_hardware_differ():
    check(replace(REPORT, devices=replace(REPORT.devices, cpu_name="Xeon")), mixed=True)


def test_clocks():
    assert clocks_apart({"n1": 0.2, "n2": 1.9}) == ""
    assert "the clock of n2 is 7.0 s ahead of that of n1" in clocks_apart({"n1": -3.0, "n2": 4.0})
