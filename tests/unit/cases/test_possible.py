from __future__ import annotations

import importlib.metadata
import re
import sys
from pathlib import Path

import pytest

from pytest_dlperf.cases.marker import expand
from pytest_dlperf.cases.possible import check_possible, check_version, requirement
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import NotRunError
from pytest_dlperf.core.frameworks import FRAMEWORKS


def case(layout: str, **keys: object) -> Case:
    values = {"suite": "tsm", "framework": "tensorflow", "batch_size_per_device": 16}
    work = {} if "command" in keys else {"workload": "m:build"}
    return expand(layout=layout, **values | work | keys)[0]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    versions = {"tensorflow-cpu": "2.15.1"}

    def version(name: str) -> str:
        try:
            return versions[name]
        except KeyError:
            raise importlib.metadata.PackageNotFoundError(name) from None

    monkeypatch.setattr(importlib.metadata, "version", version)
    return versions


def test_several_ranks_of_tensorflow_need_horovod(installed: dict[str, str]):
    with pytest.raises(NotRunError, match=r"Horovod is not installed, and 2 ranks .* need it"):
        check_possible(case("1n2c"), compute_capability=None)
    check_possible(case("1n1c"), compute_capability=None)
    check_possible(case("1n2c", launcher="tf-multiworker"), compute_capability=None)
    installed["horovod"] = "0.28.1"
    check_possible(case("1n2c"), compute_capability=None)


def test_a_framework_that_is_missing_is_named_before_its_horovod(installed: dict[str, str]):
    installed.clear()
    with pytest.raises(NotRunError, match="tensorflow is not installed"):
        check_possible(case("1n2c"), compute_capability=None)


def test_amp_of_tensorflow_needs_a_gpu(installed: dict[str, str]):
    with pytest.raises(NotRunError, match="no CPU kernels"):
        check_possible(case("1n1c", precision="amp"), compute_capability=None)


def test_jax_scales_no_losses(installed: dict[str, str]):
    installed.update(jax="0.10.2")
    with pytest.raises(NotRunError, match="loss scaling, which JAX does not bring; name bf16"):
        check_possible(case("1n1g", framework="jax", precision="amp"), compute_capability=None)
    check_possible(case("1n1g", framework="jax", precision="bf16"), compute_capability=None)


@pytest.mark.parametrize(
    ("framework", "precision", "named"),
    [("torch", "amp", "bf16"), ("paddle", "amp", "fp32"), ("paddle", "tf32", "fp32"),
     ("paddle", "pure_fp16", "fp32")],
)  # fmt: skip
def test_a_precision_that_a_cpu_has_is_named(
    framework: str, precision: str, named: str, installed: dict[str, str]
):
    installed.update(torch="2.13.0", paddlepaddle="3.3.1")
    with pytest.raises(NotRunError, match=f"no CPU kernels; name {named}, or run it on a GPU"):
        check_possible(
            case("1n1c", framework=framework, precision=precision), compute_capability=None
        )
    check_possible(case("1n1c", framework=framework, precision=named), compute_capability=None)


@pytest.mark.parametrize(
    ("framework", "distribution", "version", "wrong"),
    [
        (
            "torch",
            "torch",
            "1.13.1+cu117",
            r"torch 1\.13\.1\+cu117 is too old: ranks need 2\.3 or",
        ),
        ("torch", "torch", "2.2.2", "install torch>=2.3"),
        ("torch", "torch", "2.3.0a0+40ec155e58", ""),
        ("torch", "torch", "2.13.0+cpu", ""),
        ("paddle", "paddlepaddle-gpu", "2.5.2.post117", "paddle 2.5.2.post117 is too old"),
        ("paddle", "paddlepaddle-gpu", "2.6.2", ""),
        ("paddle", "paddlepaddle", "0.0.0", ""),
        ("jax", "jax", "0.4.38", r"jax 0\.4\.38 is too old: ranks need 0\.6\.1 or newer"),
        ("jax", "jax", "0.6.0", "which has jax.shard_map; install jax>=0.6.1"),
        ("jax", "jax", "0.6.1", ""),
        ("jax", "jax", "0.10.2", ""),
        ("tensorflow", "tensorflow", "2.9.3", "too old.*install tensorflow>=2.12,<2.16"),
        ("tensorflow", "tensorflow", "2.12.1", ""),
        ("tensorflow", "tensorflow", "2.21.0", "too new: Keras 3 .* TF_USE_LEGACY_KERAS=1"),
    ],
)
def test_a_framework_must_be_neither_too_old_nor_too_new(
    framework: str, distribution: str, version: str, wrong: str, installed: dict[str, str]
):
    installed.clear()
    installed[distribution] = version
    if wrong:
        with pytest.raises(NotRunError, match=wrong):
            check_possible(case("1n1c", framework=framework), compute_capability=None)
    else:
        check_possible(case("1n1c", framework=framework), compute_capability=None)
    # A user's own program knows itself what it needs.
    own = case("1n1c", framework=framework, command=["python", "train.py"])
    check_possible(own, compute_capability=None)


def test_a_new_tensorflow_with_the_old_keras(
    installed: dict[str, str], monkeypatch: pytest.MonkeyPatch
):
    installed["tensorflow"] = "2.17.0"
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", "1")
    with pytest.raises(NotRunError, match="too new"):
        check_possible(case("1n1c"), compute_capability=None)
    installed["tf_keras"] = "2.17.0"
    check_possible(case("1n1c"), compute_capability=None)


def test_a_version_elsewhere_is_said_to_be_there():
    with pytest.raises(NotRunError, match=r"torch 2\.0\.1 behind the prefix 'box' is too old"):
        check_version("torch", "2.0.1", where="behind the prefix 'box'")


def test_the_extras_install_what_will_do():
    project = (Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8")
    for framework, entry in FRAMEWORKS.items():
        wanted = f"{entry.distributions[0]}{requirement(framework)}"
        assert re.search(rf'^{framework} = \["{wanted}"', project, re.MULTILINE)
    assert f'"paddlepaddle-gpu{requirement("paddle")}"' in project


@pytest.mark.parametrize(
    ("python", "framework", "layout", "words"),
    [
        ((3, 13), "tensorflow", "1n1c", "brings it on Python 3.11 or lower, and this is 3.13"),
        ((3, 11), "tensorflow", "1n1c", r"pip install 'pytest-dlperf\[tensorflow\]' brings it$"),
        ((3, 13), "paddle", "1n1c", r"'pytest-dlperf\[paddle\]' brings it$"),
        ((3, 13), "paddle", "1n1g", r"'pytest-dlperf\[paddle-gpu\]' brings it$"),
    ],
)
def test_what_brings_a_missing_framework(
    python: tuple[int, int], framework: str, layout: str, words: str,
    installed: dict[str, str], monkeypatch: pytest.MonkeyPatch,
):  # fmt: skip
    installed.clear()
    monkeypatch.setattr(sys, "version_info", (*python, 1, "final", 0))
    with pytest.raises(NotRunError, match=words):
        check_possible(case(layout, framework=framework), compute_capability=None)


def test_a_program_that_needs_no_framework_hears_how_to_say_so(installed: dict[str, str]):
    installed.clear()
    own = case("1n1c", command=["python", "train.py"])
    with pytest.raises(NotRunError, match=r"brings it.*; framework=None is for a program that"):
        check_possible(own, compute_capability=None)


def test_fp8_is_pytorchs(installed: dict[str, str]):
    with pytest.raises(NotRunError, match="fp8 is known of PyTorch only, and the case is of tens"):
        check_possible(case("1n1g", precision="fp8"), compute_capability=9.0)


def test_fp8_needs_a_package_and_a_gpu_that_has_it(installed: dict[str, str]):
    installed["torch"] = "2.13.0"
    fp8 = case("1n1g", framework="torch", precision="fp8")
    with pytest.raises(NotRunError, match=r"needs a GPU of compute capability 8.9 or more"):
        check_possible(fp8, compute_capability=8.0)
    with pytest.raises(NotRunError, match="needs torchao or Transformer Engine, and neither is"):
        check_possible(fp8, compute_capability=9.0)
    # Another environment was not asked
    check_possible(fp8, compute_capability=9.0, framework_known=True)
    installed["torchao"] = "0.18.0"
    check_possible(fp8, compute_capability=9.0)


def test_a_cpu_has_the_operator_of_fp8(installed: dict[str, str]):
    installed["torch"] = "2.13.0"
    check_possible(case("1n1c", framework="torch", precision="fp8"), compute_capability=None)
