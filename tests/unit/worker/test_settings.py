"""Variables, flags and packages that a rank reports, with secrets masked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from pytest_dlperf.worker import settings


def test_variables_that_configure_libraries_are_reported():
    told = settings.variables(
        {
            "NCCL_ALGO": "Ring",
            "CUDA_LAUNCH_BLOCKING": "1",
            "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
            "TORCH_CUDNN_V8_API_LRU_CACHE_LIMIT": "10",
            "FLAGS_cudnn_exhaustive_search": "1",
            "XLA_FLAGS": "--xla_gpu_autotune_level=4",
            "HOME": "/root",
            "TORCHELASTIC_RUN_ID": "8231",
            "HOROVOD_GLOO_RENDEZVOUS_PORT": "41231",
            "HOROVOD_GLOO_TIMEOUT_SECONDS": "600",
        }
    )
    assert told == {
        "CUDA_LAUNCH_BLOCKING": "1",
        "FLAGS_cudnn_exhaustive_search": "1",
        "HOROVOD_GLOO_TIMEOUT_SECONDS": "600",
        "NCCL_ALGO": "Ring",
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        "TORCH_CUDNN_V8_API_LRU_CACHE_LIMIT": "10",
        "XLA_FLAGS": "--xla_gpu_autotune_level=4",
    }


def test_variables_that_slow_or_instrument_the_interpreter_are_reported():
    """As pytest-cov sets them for subprocesses, or a job of sanitizers."""
    set_ = {
        "ASAN_OPTIONS": "detect_leaks=0",
        "COVERAGE_PROCESS_START": "/p/.coveragerc",
        "COV_CORE_SOURCE": "src",
        "GLIBC_TUNABLES": "glibc.malloc.check=3",
        "LD_PRELOAD": "/usr/lib/libjemalloc.so.2",
        "MALLOC_PERTURB_": "3",
        "PYTHONDEVMODE": "1",
        "PYTHONMALLOC": "debug",
        "PYTHONTRACEMALLOC": "25",
        "PYTHON_GIL": "0",
    }
    others = {"COVERAGE_FILE": "/p/.coverage.7", "PYTHONPATH": "/p", "PYTHONUNBUFFERED": "1"}
    assert settings.variables({**set_, **others}) == set_


def test_a_very_long_value_is_shortened_and_still_told_apart():
    values = [f":data:{'x' * 100_000}{end}" for end in "ab"]
    shown = [settings.variables({"COVERAGE_PROCESS_CONFIG": v}) for v in values]
    assert shown[0] != shown[1]
    assert all(len(one["COVERAGE_PROCESS_CONFIG"]) < 600 for one in shown)


@pytest.mark.parametrize(
    "name",
    [
        "CUDA_VISIBLE_DEVICES",
        "FLAGS_selected_gpus",
        "NCCL_COMM_ID",
        "TORCHINDUCTOR_CACHE_DIR",
        "JAX_COORDINATOR_BIND_ADDRESS",
    ],
)
def test_what_each_launch_sets_is_no_difference(name: str):
    assert settings.variables({name: "3"}) == {}


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("TORCH_HUB_TOKEN", "hf_abc", "…"),
        ("NCCL_API_KEY", "abc", "…"),
        ("PYTORCH_MIRROR", "https://me:pw@host/x", "https://…@host/x"),
    ],
)
def test_secrets_are_masked(name: str, value: str, told: str):
    assert settings.variables({name: value}) == {name: told}


def test_packages_are_those_that_are_imported(tmp_path: Path):
    first, second = tmp_path / "a", tmp_path / "b"
    for folder in (
        first / "Torch_Vision-0.2.dist-info",
        first / "numpy-2.1.0+cpu.dist-info",
        second / "numpy-1.9.dist-info",
        second / "old-1.0-py3.11.egg-info",
        second / "no_package",
    ):
        folder.mkdir(parents=True)
    path = [str(first), str(tmp_path / "missing"), str(second)]
    assert settings.packages(path) == {"numpy": "2.1.0+cpu", "old": "1.0", "torch-vision": "0.2"}


def test_packages_are_those_of_pip():
    """Of this environment, by their metadata."""
    code = (
        "import importlib.metadata as m, json, re\n"
        "names = [d.metadata['Name'] for d in m.distributions()]\n"
        "print(json.dumps({re.sub('[-_.]+', '-', n).lower(): m.version(n) for n in names if n}))"
    )
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    known = json.loads(output)
    assert known
    found = settings.packages(sys.path)
    assert {name: found.get(name) for name in known} == known


@pytest.fixture
def no_frameworks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch", "paddle", "tensorflow"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def imported(monkeypatch: pytest.MonkeyPatch, name: str, **members: object) -> None:
    module = ModuleType(name)
    module.__dict__.update(members)
    monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.usefixtures("no_frameworks")
def test_flags_of_pytorch(monkeypatch: pytest.MonkeyPatch):
    cudnn = SimpleNamespace(benchmark=True, deterministic=False)
    imported(
        monkeypatch,
        "torch",
        backends=SimpleNamespace(cudnn=cudnn),
        are_deterministic_algorithms_enabled=lambda: True,
    )
    assert settings.flags() == {
        "cudnn.benchmark": "on",
        "cudnn.deterministic": "off",
        "deterministic algorithms": "on",
    }


@pytest.mark.usefixtures("no_frameworks")
def test_flags_of_paddle_that_a_build_lacks_are_left_out(monkeypatch: pytest.MonkeyPatch):
    def get_flags(names: list[str]) -> dict[str, object]:
        if "cudnn" in names[0]:
            raise ValueError("Flag FLAGS_cudnn_deterministic cannot get its value through this")
        return dict.fromkeys(names, 1)

    imported(monkeypatch, "paddle", get_flags=get_flags)
    assert settings.flags() == {"FLAGS_embedding_deterministic": "on"}


@pytest.mark.usefixtures("no_frameworks")
def test_flags_of_tensorflow(monkeypatch: pytest.MonkeyPatch):
    optimizer = SimpleNamespace(get_jit=lambda: "autoclustering")
    imported(monkeypatch, "tensorflow", config=SimpleNamespace(optimizer=optimizer))
    name = "tensorflow.python.framework.config"
    imported(monkeypatch, name, is_op_determinism_enabled=lambda: False)
    assert settings.flags() == {"xla.jit": "autoclustering", "deterministic ops": "off"}


def test_the_record_is_of_this_process(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NCCL_ALGO", "Tree")
    found = settings.settings_record()
    assert found["variables"]["NCCL_ALGO"] == os.environ["NCCL_ALGO"]
    assert "pytest" in found["packages"]
