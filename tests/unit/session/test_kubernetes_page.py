"""The manifests of ``examples/kubernetes``: what they name is there, and fits together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helpers.documents import ROOT
from tests.helpers.given_options import settings_of

FOLDER = ROOT / "examples/kubernetes"
DOCUMENTS: list[dict[str, Any]] = [
    document
    for name in ("one-node.yaml", "two-nodes.yaml")
    for document in yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8"))
]
ONE_NODE, SERVICE, TWO_NODES = DOCUMENTS
JOBS = pytest.mark.parametrize("job", [ONE_NODE, TWO_NODES], ids=["one node", "two nodes"])


def pod_of(job: dict[str, Any]) -> dict[str, Any]:
    pod: dict[str, Any] = job["spec"]["template"]["spec"]
    return pod


def options_of(job: dict[str, Any], folder: Path, index: str = "0") -> list[str]:
    """Return pytest's options in a pod of this index, with the volume mounted in ``folder``."""
    [container] = pod_of(job)["containers"]
    pytest_, _, *words = container["command"]
    assert pytest_ == "pytest"
    return [
        word.replace("$(JOB_COMPLETION_INDEX)", index).replace("/dlperf/", f"{folder}/")
        for word in words
    ]


def test_kinds_and_versions():
    assert [(document["kind"], document["apiVersion"]) for document in DOCUMENTS] == [
        ("Job", "batch/v1"), ("Service", "v1"), ("Job", "batch/v1"),
    ]  # fmt: skip


@JOBS
def test_a_job_starts_its_pods_once(job: dict[str, Any]):
    assert job["spec"]["backoffLimit"] == 0
    assert pod_of(job)["restartPolicy"] == "Never"


@JOBS
def test_what_is_mounted_is_a_volume_and_shared_memory_is_memory(job: dict[str, Any]):
    [container] = pod_of(job)["containers"]
    volumes = {volume["name"]: volume for volume in pod_of(job)["volumes"]}
    mounts = {mount["mountPath"]: volumes[mount["name"]] for mount in container["volumeMounts"]}
    assert mounts["/dev/shm"]["emptyDir"] == {"medium": "Memory"}
    assert "persistentVolumeClaim" in mounts["/dlperf"]


@JOBS
def test_the_options_are_those_of_a_session(job: dict[str, Any], tmp_path: Path):
    (tmp_path / "baselines").mkdir()
    settings = settings_of(*options_of(job, tmp_path), folder=tmp_path)
    [container] = pod_of(job)["containers"]
    gpus = container["resources"]["limits"]["nvidia.com/gpu"]
    assert settings.gpus == (gpus * job["spec"].get("completions", 1),)


def test_nodes_meet_at_the_first_pod(tmp_path: Path):
    (tmp_path / "baselines").mkdir()
    spec, name = TWO_NODES["spec"], TWO_NODES["metadata"]["name"]
    assert spec["completionMode"] == "Indexed"
    assert spec["completions"] == spec["parallelism"] == 2
    assert SERVICE["spec"]["clusterIP"] == "None"
    assert SERVICE["spec"]["selector"] == {"job-name": name}
    assert pod_of(TWO_NODES)["subdomain"] == SERVICE["metadata"]["name"]
    for index in range(spec["completions"]):
        given = options_of(TWO_NODES, tmp_path, str(index))
        part = settings_of(*given, folder=tmp_path).place.node_part
        assert part is not None
        assert part.node_rank == index
        assert part.master_addr == f"{name}-0.{SERVICE['metadata']['name']}"
        assert f"--dlperf-json={tmp_path}/results.node{index}.json" in given
