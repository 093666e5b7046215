"""Kubeflow manifests of a case: PyTorchJob, PaddleJob, MPIJob; written as YAML.

Each node of a case is a pod that runs pytest for just this case. Nothing is submitted from here.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import UsageError

#: Image in the manifest where ``--dlperf-image`` is not given.
NO_IMAGE: Final = "IMAGE-WITH-PYTEST-DLPERF"
#: The claim of the volume that all nodes share: records, results.
CLAIM: Final = "dlperf"
#: Where the operator keeps the list of an MPIJob's workers.
_HOSTFILE: Final = "/etc/mpi/hostfile"
_PORT: Final = 23456
_NAME_LENGTH: Final = 40
#: The label by which the training operator numbers the pods of a role.
_INDEX: Final = "metadata.labels['training.kubeflow.org/replica-index']"


def manifest(request: PodRequest) -> dict[str, Any]:
    """Return the manifest of a case; raise ``UsageError`` if no operator starts its launcher."""
    case = request.case
    kind = _kind(request)
    body = {"MPIJob": _mpi, "PyTorchJob": _pytorch, "PaddleJob": _paddle}[kind](request)
    return {
        "apiVersion": "kubeflow.org/v2beta1" if kind == "MPIJob" else "kubeflow.org/v1",
        "kind": kind,
        "metadata": {
            "name": job_name(case.id),
            "labels": {"app.kubernetes.io/managed-by": "pytest-dlperf"},
            "annotations": {"dlperf/case": case.id},
        },
        "spec": {
            "runPolicy": {
                "activeDeadlineSeconds": math.ceil(request.time_s),
                "backoffLimit": 0,
                "cleanPodPolicy": "Running",
            },
            **body,
        },
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class PodRequest:
    """The values of a case's manifest."""

    case: Case
    #: Its launcher, by name.
    launcher: str
    #: The pytest command for this case, without the options that depend on the node.
    command: tuple[str, ...]
    image: str
    #: Environment variables that an allowlist of names lets through.
    env: Mapping[str, str]
    #: Where the shared volume is mounted: the folder of records and results.
    workdir: str
    time_s: float


def job_name(case_id: str) -> str:
    """Return a name that Kubernetes accepts, different for each case id."""
    name = re.sub(r"[^a-z0-9]+", "-", case_id.lower()).strip("-")
    digest = hashlib.sha256(case_id.encode()).hexdigest()[:8]
    return f"{name[:_NAME_LENGTH].strip('-')}-{digest}"


def _kind(request: PodRequest) -> str:
    if request.launcher in {"mpirun", "horovodrun"}:
        return "MPIJob"
    if request.launcher == "tf-multiworker" or request.case.framework == "tensorflow":
        if request.case.world_size == 1:
            return "MPIJob"
        raise UsageError(
            f"{request.case.id}: no manifest for the launcher {request.launcher!r}; "
            "--dlperf-launcher=mpirun has one"
        )
    return "PaddleJob" if request.case.framework == "paddle" else "PyTorchJob"


def _pytorch(request: PodRequest) -> dict[str, Any]:
    # The operator sets RANK to the number of the pod; the master is 0
    pod = _pod(request, "pytorch", _share(request, "$(RANK)", "master"))
    others = request.case.layout.nodes - 1
    replicas = {"Master": _replica(1, pod)}
    if others:
        replicas["Worker"] = _replica(others, pod)
    return {"pytorchReplicaSpecs": replicas}


def _paddle(request: PodRequest) -> dict[str, Any]:
    number = {"name": "DLPERF_NODE", "valueFrom": {"fieldRef": {"fieldPath": _INDEX}}}
    words = _share(request, "$(DLPERF_NODE)", "worker")
    pod = _pod(request, "paddle", words, further_env=[number])
    return {"paddleReplicaSpecs": {"Worker": _replica(request.case.layout.nodes, pod)}}


def _mpi(request: PodRequest) -> dict[str, Any]:
    layout = request.case.layout
    words = (*_quoted(request.command), f"--dlperf-hosts={_HOSTFILE}", _results(request, ""))
    launcher = _pod(request, "mpi-launcher", words, devices=False)
    # Without a command: the operator lets its workers run sshd
    worker = _pod(request, "mpi-worker", None)
    return {
        "slotsPerWorker": layout.devices_per_node,
        "mpiReplicaSpecs": {
            "Launcher": _replica(1, launcher),
            "Worker": _replica(layout.nodes, worker),
        },
    }


def _share(request: PodRequest, number: str, role: str) -> tuple[str, ...]:
    """Return the command of one node of several, which meets the others at the first of them."""
    if request.case.layout.nodes == 1:
        return (*_quoted(request.command), _results(request, ""))
    return (
        *_quoted(request.command),
        f"--dlperf-node-rank={number}",
        f"--dlperf-master={job_name(request.case.id)}-{role}-0:{_PORT}",
        _results(request, f".node{number}"),
    )


def _results(request: PodRequest, node: str) -> str:
    return f"--dlperf-json={request.workdir}/shards/{request.case.id}{node}.json"


def _quoted(words: tuple[str, ...]) -> tuple[str, ...]:
    # Kubernetes fills in $(NAME); two dollars are one of them
    return tuple(word.replace("$(", "$$(") for word in words)


def _replica(count: int, pod: dict[str, Any]) -> dict[str, Any]:
    return {"replicas": count, "restartPolicy": "Never", "template": {"spec": pod}}


def _pod(
    request: PodRequest,
    name: str,
    command: tuple[str, ...] | None,
    *,
    devices: bool = True,
    further_env: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    layout = request.case.layout
    env = [
        {"name": key, "value": value.replace("$(", "$$(")}
        for key, value in sorted(request.env.items())
    ]
    container: dict[str, Any] = {
        # Each operator knows its own container by name
        "name": name,
        "image": request.image or NO_IMAGE,
        "env": [*env, *(further_env or [])],
        "volumeMounts": [
            {"name": "shm", "mountPath": "/dev/shm"},
            {"name": "shared", "mountPath": request.workdir},
        ],
    }
    if command is not None:
        container["command"] = list(command)
    if devices and layout.device == "gpu":
        container["resources"] = {"limits": {"nvidia.com/gpu": layout.devices_per_node}}
    return {
        "containers": [container],
        "volumes": [
            # Data loaders and NCCL need more than the 64 MiB that a container has
            {"name": "shm", "emptyDir": {"medium": "Memory"}},
            {"name": "shared", "persistentVolumeClaim": {"claimName": CLAIM}},
        ],
    }


def yaml_text(value: Any) -> str:
    """Return mappings, lists, texts, numbers and booleans as a YAML document.

    Without a library, since this package reads no YAML. Each text is quoted as in JSON, which
    YAML reads as the same text: never as a number, a date or a boolean.
    """
    return "\n".join(["---", *_lines(value)]) + "\n"


def _lines(value: Any) -> list[str]:
    if isinstance(value, dict) and value:
        return [line for key, item in value.items() for line in _entry(f"{key}:", item)]
    if isinstance(value, list) and value:
        return [line for item in value for line in _item(item)]
    return [json.dumps(value)]


def _entry(key: str, value: Any) -> list[str]:
    if isinstance(value, dict | list) and value:
        return [key, *(f"  {line}" for line in _lines(value))]
    return [f"{key} {json.dumps(value)}"]


def _item(value: Any) -> list[str]:
    first, *others = _lines(value)
    return [f"- {first}", *(f"  {line}" for line in others)]
