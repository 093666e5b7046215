"""Manifests, against the operators' own schemas; what YAML makes of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.layout import Layout
from pytest_dlperf.launch.schedulers.kubernetes import (
    CLAIM,
    NO_IMAGE,
    PodRequest,
    job_name,
    manifest,
    yaml_text,
)

SCHEMAS = json.loads((Path(__file__).parent / "kubeflow_crds.json").read_text(encoding="utf-8"))


def case(layout: str, framework: str = "torch") -> Case:
    return Case(
        suite="tsm", framework=framework, precision="amp", batch_size_per_device=16,
        layout=Layout.parse(layout), workload="tsm:build",
    )  # fmt: skip


def request(layout: str, launcher: str = "torchrun", framework: str = "torch") -> PodRequest:
    return PodRequest(
        case=case(layout, framework),
        launcher=launcher,
        command=("python3", "-m", "pytest", "test_tsm.py::test_tsm[$(HOME)]"),
        image="registry.example/dl:1",
        env={"NCCL_DEBUG": "INFO", "NCCL_X": "$(HOME): 'a' #b\n"},
        workdir="/shared/dlperf",
        time_s=3600.5,
    )


def checked(asked: PodRequest) -> dict[str, Any]:
    """Return the manifest as YAML has it, after its schema has taken it."""
    made = yaml.safe_load(yaml_text(manifest(asked)))
    assert made == manifest(asked)
    jsonschema.validate(made, SCHEMAS[made["kind"]])
    return made


def containers(made: dict[str, Any], specs: str) -> dict[str, tuple[int, dict[str, Any]]]:
    return {
        role: (replica["replicas"], replica["template"]["spec"]["containers"][0])
        for role, replica in made["spec"][specs].items()
    }


def test_torchrun_on_several_nodes_is_a_pytorchjob_of_a_share_each():
    made = checked(request("4n8g"))
    assert (made["apiVersion"], made["kind"]) == ("kubeflow.org/v1", "PyTorchJob")
    roles = containers(made, "pytorchReplicaSpecs")
    assert {role: count for role, (count, _) in roles.items()} == {"Master": 1, "Worker": 3}
    for _, container in roles.values():
        assert container["name"] == "pytorch"
        assert container["resources"] == {"limits": {"nvidia.com/gpu": 8}}
        command = container["command"]
        assert command[3] == "test_tsm.py::test_tsm[$$(HOME)]"
        assert "--dlperf-node-rank=$(RANK)" in command
        assert f"--dlperf-master={made['metadata']['name']}-master-0:23456" in command
        assert command[-1].endswith("tsm-torch-amp-bs16-4n8g.node$(RANK).json")
        assert container["env"] == [
            {"name": "NCCL_DEBUG", "value": "INFO"},
            {"name": "NCCL_X", "value": "$$(HOME): 'a' #b\n"},
        ]
    pod = made["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]
    assert pod["volumes"] == [
        {"name": "shm", "emptyDir": {"medium": "Memory"}},
        {"name": "shared", "persistentVolumeClaim": {"claimName": CLAIM}},
    ]
    assert made["spec"]["runPolicy"]["activeDeadlineSeconds"] == 3601
    assert made["spec"]["runPolicy"]["backoffLimit"] == 0


def test_one_node_is_one_pod_and_cpus_ask_for_no_gpu():
    made = checked(request("1n2c"))
    roles = containers(made, "pytorchReplicaSpecs")
    assert list(roles) == ["Master"]
    _, container = roles["Master"]
    assert "resources" not in container
    assert not any("node-rank" in word for word in container["command"])


@pytest.mark.parametrize("launcher", ["mpirun", "horovodrun"])
def test_mpi_is_an_mpijob_whose_launcher_knows_the_hosts(launcher: str):
    made = checked(request("2n8g", launcher, "tensorflow"))
    assert (made["apiVersion"], made["kind"]) == ("kubeflow.org/v2beta1", "MPIJob")
    assert made["spec"]["slotsPerWorker"] == 8
    (one, launcher_container), (nodes, worker) = containers(made, "mpiReplicaSpecs").values()
    assert (one, nodes) == (1, 2)
    assert "--dlperf-hosts=/etc/mpi/hostfile" in launcher_container["command"]
    assert "resources" not in launcher_container
    assert "command" not in worker
    assert worker["resources"] == {"limits": {"nvidia.com/gpu": 8}}


def test_paddle_has_its_own_job_whose_pods_are_numbered_by_their_label():
    made = checked(request("2n8g", "paddle.distributed.launch", "paddle"))
    assert made["kind"] == "PaddleJob"
    [(count, container)] = containers(made, "paddleReplicaSpecs").values()
    assert count == 2
    assert container["env"][-1]["name"] == "DLPERF_NODE"
    assert "--dlperf-node-rank=$(DLPERF_NODE)" in container["command"]


def test_a_launcher_without_an_operator_is_named():
    with pytest.raises(UsageError, match="no manifest for the launcher 'tf-multiworker'"):
        manifest(request("2n8g", "tf-multiworker", "tensorflow"))


def test_without_an_image_a_placeholder_says_so():
    made = manifest(replace(request("1n1g"), image=""))
    container = made["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]
    assert container["image"] == NO_IMAGE


def test_the_schema_refuses_what_no_operator_knows():
    made = manifest(request("1n1g"))
    made["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["contaners"] = []
    with pytest.raises(jsonschema.ValidationError, match="contaners"):
        jsonschema.validate(made, SCHEMAS["PyTorchJob"])


@pytest.mark.parametrize("case_id", ["tsm.tiny-torch-fp32-bs2-1n2c", "My_Suite" * 20, "a", "A"])
def test_names_are_those_of_kubernetes_and_each_case_has_its_own(case_id: str):
    name = job_name(case_id)
    # With -master-0 or -launcher-xxxxx a pod's name must stay below 64 characters
    assert len(name) < 50
    assert name == name.lower()
    assert name.replace("-", "").isalnum()
    assert name != job_name(case_id + "x")
    assert job_name("a") != job_name("A")


@pytest.mark.parametrize(
    "value",
    [
        {"a": "no", "b": "1e3", "c": "2026-01-02", "d": ": #", "e": "é\n\t\"'", "f": "null"},
        {"a": [], "b": {}, "c": [{"x": [1, 2], "y": {"z": True}}], "d": None},
        [[1, [2, 3]], {"a": [{"b": "c"}]}],
    ],
)
def test_yaml_reads_back_what_was_written(value: Any):
    assert yaml.safe_load(yaml_text(value)) == value
