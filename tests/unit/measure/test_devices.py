from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from pytest_dlperf.measure import devices


@pytest.fixture
def nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Put a fake nvidia-smi on PATH that prints and exits as given."""

    def put(output: str, exit_code: int = 0) -> None:
        script = tmp_path / "nvidia-smi"
        script.write_text(
            f"#!/bin/sh\ncat <<'E'\n{output}\nE\nexit {exit_code}\n", encoding="utf-8"
        )
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        monkeypatch.setattr(devices, "_PCI", tmp_path / "bus")
        # NVML of a machine with GPUs says nothing of these
        monkeypatch.setattr(devices, "open_nvml", lambda: "not asked")

    return put


def put_on_bus(folder: Path, *numbers: str) -> None:
    for index, number in enumerate(numbers):
        board = folder / "bus" / f"0000:{index:02x}:00.0"
        board.mkdir(parents=True)
        for name, value in {"vendor": "0x10de", "class": "0x030200", "device": number}.items():
            (board / name).write_text(f"{value}\n", encoding="ascii")


V100 = "Tesla V100-SXM2-32GB, 32510, 450.80.02, 7.0"


def test_gpus_of_a_driver_that_hangs_are_not_absent(
    nvidia_smi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    nvidia_smi(V100)
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\nsleep 600 &\nsleep 600\n", encoding="utf-8")
    monkeypatch.setattr(devices, "_ANSWER_S", 0.3)
    found = devices.detect()
    assert found.gpus == ()
    assert found.gpu_problem == "nvidia-smi does not answer: it took more than 0.3 s"


def test_the_machine_class_counts_physical_gpus(nvidia_smi, monkeypatch: pytest.MonkeyPatch):
    nvidia_smi("\n".join([V100] * 8))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,3")
    found = devices.detect()
    assert found.machine_class("gpu") == "8x-v100-sxm2-32gb"
    assert (found.visible_gpus, found.gpu_problem) == (2, "")
    assert found.gpus[0].compute_capability == 7.0


@pytest.mark.parametrize(
    ("numbers", "slug"),
    [
        (["0x1db5"] * 8, "8x-v100-sxm2-32gb"),
        # Which of them it is, nvidia-smi does not say
        (["0x1db5"] * 8 + ["0x20b0"], "1x-v100-sxm2-32gb"),
    ],
)
def test_a_container_with_one_of_eight_needs_no_nvml_to_be_on_the_machine_of_eight(
    nvidia_smi, tmp_path: Path, numbers: list[str], slug: str
):
    nvidia_smi(V100)
    put_on_bus(tmp_path, *numbers)
    assert devices.detect().machine_class("gpu") == slug


@pytest.mark.parametrize(
    ("value", "count"),
    [("", 0), ("-1", 0), ("0", 1), ("0,1", 2), ("1,9,0", 1), ("GPU-8932f937,1", 2), ("all", 0)],
)
def test_visible_devices_are_read_as_cuda_does(
    nvidia_smi, monkeypatch: pytest.MonkeyPatch, value: str, count: int
):
    nvidia_smi("\n".join([V100] * 4))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    assert devices.detect().visible_gpus == count


def test_a_driver_that_fails_is_a_problem_not_an_absence(nvidia_smi):
    nvidia_smi("NVIDIA-SMI has failed because it couldn't communicate with the driver", 9)
    found = devices.detect()
    assert found.visible_gpus == 0
    assert "exit code 9: NVIDIA-SMI has failed" in found.gpu_problem


def test_a_driver_that_prints_nonsense_is_a_problem(nvidia_smi):
    nvidia_smi("no devices were found, maybe")
    assert "cannot be read" in devices.detect().gpu_problem


@pytest.mark.parametrize(
    ("line", "slug"),
    [
        ("NVIDIA H200, 143771, 570.1, 9.0", "1x-h200-140gb"),
        ("NVIDIA A100-SXM4-80GB, 81920, 570.1, 8.0", "1x-a100-sxm4-80gb"),
        ("NVIDIA GeForce RTX 3080, 10240, 570.1, 8.6", "1x-rtx-3080-10gb"),
        ("NVIDIA H100 80GB HBM3, 81559, 570.1, 9.0", "1x-h100-80gb-hbm3"),
    ],
)
def test_gpu_slugs(nvidia_smi, line: str, slug: str):
    nvidia_smi(line)
    assert devices.detect().machine_class("gpu") == slug


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("Intel(R) Xeon(R) Gold 6271C CPU @ 2.60GHz", "4x-intel-xeon-gold-6271c"),
        ("AMD EPYC 9B45", "4x-amd-epyc-9b45"),
        ("AMD Ryzen 9 5950X 16-Core Processor", "4x-amd-ryzen-9-5950x"),
    ],
)
def test_cpu_slugs(name: str, slug: str):
    found = devices.Devices(
        gpus=(), visible_gpus=0, gpu_problem="", cores=4, visible_cores=2, cpu_name=name
    )
    assert found.machine_class("cpu") == slug


def test_this_machine_has_cores_and_a_name():
    found = devices.detect()
    assert 1 <= found.visible_cores <= found.cores
    assert found.machine_class("cpu").startswith(f"{found.cores}x-")


@pytest.mark.parametrize(
    ("text", "name", "has_bf16"),
    [
        ("model name\t: Xeon\nflags\t\t: fpu avx512f avx512_bf16\n", "Xeon", True),
        ("model name\t: Xeon\nflags\t\t: fpu amx_bf16 amx_tile\n", "Xeon", True),
        ("model name\t: EPYC\nflags\t\t: fpu avx2\nbugs\t: bf16\n", "EPYC", False),
        ("processor\t: 0\nFeatures\t: fp asimd i8mm bf16\n", os.uname().machine, True),
        ("processor\t: 0\nFeatures\t: fp asimd\n", os.uname().machine, False),
        ("processor\t: 0\ncpu\t\t: POWER9\n", os.uname().machine, None),
    ],
)
def test_what_linux_reports_of_a_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, name: str, has_bf16: bool | None
):
    file = tmp_path / "cpuinfo"
    file.write_text(text, encoding="utf-8")
    monkeypatch.setattr(devices, "_CPU_INFO", file)
    found = devices.detect()
    assert (found.cpu_name, found.cpu_has_bf16) == (name, has_bf16)


@pytest.mark.parametrize(("feature", "has_bf16"), [("1", True), ("0", False), ("", None)])
def test_what_macos_reports_of_a_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, feature: str, has_bf16: bool | None
):
    script = tmp_path / "sysctl"
    script.write_text(
        "#!/bin/sh\n"
        'case "$2" in\n'
        "machdep.cpu.brand_string) echo Apple M1 ;;\n"
        f"hw.optional.arm.FEAT_BF16) echo '{feature}' ;;\n"
        "esac\n",
        encoding="utf-8",
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(devices, "_CPU_INFO", tmp_path / "none")
    found = devices.detect()
    assert (found.cpu_name, found.cpu_has_bf16) == ("Apple M1", has_bf16)
