"""Which container image this is, as far as it can be known from inside."""

from __future__ import annotations

import pytest

from pytest_dlperf.measure.environment import container_kind, image_name


@pytest.mark.parametrize(
    ("environ", "image"),
    [
        ({}, None),
        ({"DLPERF_IMAGE": ""}, None),
        ({"DLPERF_IMAGE": "mine:1", "CI_JOB_IMAGE": "theirs:2"}, "mine:1"),
        ({"CI_JOB_IMAGE": "theirs:2"}, "theirs:2"),
        ({"SINGULARITY_CONTAINER": "/images/tf.sif"}, "/images/tf.sif"),
        ({"NVIDIA_TENSORFLOW_VERSION": "20.12-tf1"}, "NGC tensorflow 20.12-tf1"),
        ({"NVIDIA_VISIBLE_DEVICES": "all"}, None),
    ],
)
def test_image_from_variables(tmp_path, environ, image):
    assert image_name(environ, tmp_path) == image


def test_podman_names_the_image_and_docker_does_not(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/.containerenv").write_text('engine="podman-4.3"\nimage="quay.io/a/b:3"\n')
    assert image_name({}, tmp_path) == "quay.io/a/b:3"
    assert container_kind({}, tmp_path) == "podman"
    (tmp_path / "run/.containerenv").unlink()
    (tmp_path / ".dockerenv").touch()
    assert image_name({}, tmp_path) is None
    assert container_kind({}, tmp_path) == "docker"


@pytest.mark.parametrize(
    ("environ", "kind"),
    [
        ({}, None),
        ({"APPTAINER_NAME": "tf.sif"}, "apptainer"),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes"),
        ({"container": "lxc"}, "lxc"),
    ],
)
def test_container_from_variables(tmp_path, environ, kind):
    assert container_kind(environ, tmp_path) == kind
