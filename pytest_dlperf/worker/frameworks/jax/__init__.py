"""JAX in a rank; the probe imports this package on old Pythons as well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_dlperf.core.wire_records import ProbeAnswer


def probe() -> ProbeAnswer:
    """Return the version of JAX, what it was built with, and the GPUs that it sees."""
    import jax

    gpus = [one for one in jax.devices() if one.platform == "gpu"]
    return {
        "framework_version": jax.__version__,
        "cuda": cuda_version(gpus[0]) if gpus else None,
        "cudnn": None,
        "nccl": None,
        "gpus": len(gpus),
    }


def cuda_version(device: Any) -> str | None:
    """Return ``12.8`` where the platform of a device says "cuda 12080"; None where it does not."""
    words = str(device.client.platform_version).split()
    code = words[words.index("cuda") + 1] if "cuda" in words[:-1] else ""
    return f"{int(code) // 1000}.{int(code) % 1000 // 10}" if code.isdecimal() else None
