"""What devices can do at most, as their data sheets say: operations, memory, links."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_V100: Final = {"float16": 125.0, "float32": 15.7}
_A100: Final = {"float16": 312.0, "bfloat16": 312.0, "tf32": 156.0, "float32": 19.5}
_H100_SXM: Final = {
    "float8": 1978.9, "float16": 989.4, "bfloat16": 989.4, "tf32": 494.7, "float32": 66.9,
}  # fmt: skip
_B200: Final = {
    "float8": 4500.0, "float16": 2250.0, "bfloat16": 2250.0, "tf32": 1125.0, "float32": 75.0,
}  # fmt: skip
_H100_PCIE: Final = {
    "float8": 1513.0, "float16": 756.0, "bfloat16": 756.0, "tf32": 378.0, "float32": 51.0,
}  # fmt: skip
_H100_NVL: Final = {
    "float8": 1671.0, "float16": 835.0, "bfloat16": 835.0, "tf32": 417.5, "float32": 60.0,
}  # fmt: skip
_H200_NVL: Final = {
    "float8": 1670.5, "float16": 835.5, "bfloat16": 835.5, "tf32": 417.5, "float32": 60.0,
}  # fmt: skip
_L40S: Final = {
    "float8": 733.0, "float16": 362.0, "bfloat16": 362.0, "tf32": 183.0, "float32": 91.6,
}  # fmt: skip
_L4: Final = {
    "float8": 242.0, "float16": 121.0, "bfloat16": 121.0, "tf32": 60.0, "float32": 30.3,
}  # fmt: skip
#: Peak of a device in TFLOP/s by dtype, dense (without sparsity), at its boost clock, as NVIDIA's
#: data sheets have them; the first pattern that the driver's name fits counts. A board whose sheet
#: was not at hand has none, and a slice of a device (MIG) has none. The H200's sheet, with numbers
#: for sparsity, twice the dense ones:
#: https://nvdam.widen.net/s/nb5zzzsjdf/hpc-datasheet-sc23-h200-datasheet-3002446
PEAKS_TFLOP_PER_S: Final[Sequence[tuple[str, Mapping[str, float]]]] = (
    (r"\bB200\b", _B200),
    (r"H200 NVL\b", _H200_NVL),
    (r"H200\b", _H100_SXM),
    (r"H100 PCIe\b", _H100_PCIE),
    (r"H100 NVL\b", _H100_NVL),
    (r"H100 80GB HBM3\b|H100[- ]SXM", _H100_SXM),
    (r"A100\b", _A100),
    (r"A30\b", {"float16": 165.0, "bfloat16": 165.0, "tf32": 82.0, "float32": 10.3}),
    (r"A10\b", {"float16": 125.0, "bfloat16": 125.0, "tf32": 62.5, "float32": 31.2}),
    (r"L40S\b", _L40S),
    (r"L4\b", _L4),
    (r"V100-PCIE", {"float16": 112.0, "float32": 14.0}),
    # A slower board, of 150 W
    (r"V100-FHHL", {}),
    (r"V100\b", _V100),
    (r"\bT4\b", {"float16": 65.0, "float32": 8.1}),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceRates:
    """The rates that the time of a step is predicted by, of one device."""

    #: As the driver calls it.
    driver_name: str
    #: That of its machine classes, behind the number of devices.
    machine: str
    memory_gb_per_s: float
    #: To other devices of the node, in one direction.
    link_gb_per_s: float
    #: To other nodes, in one direction: a device's share of a node's network.
    network_gb_per_s: float

    @property
    def peak_flop_per_s(self) -> dict[str, float]:
        """Return the peaks by dtype; ``tf32`` is one of them."""
        peaks = next(p for pattern, p in PEAKS_TFLOP_PER_S if re.search(pattern, self.driver_name))
        return {dtype: 1e12 * peak for dtype, peak in peaks.items()}


#: By the names that ``--dlperf-cost-device`` has. Memory and links are those of NVIDIA's data
#: sheets, of NVLink half of what they say for both directions; the network is that of NVIDIA's own
#: machine with eight of them:
#: H100, https://resources.nvidia.com/en-us-gpu-resources/h100-datasheet-24306, and eight adapters
#: of 400 Gb/s, https://docs.nvidia.com/dgx/dgxh100-user-guide/introduction-to-dgxh100.html;
#: H200, whose sheet is that of the peaks; A100,
#: https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center/a100/pdf/nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf,
#: and eight adapters of 200 Gb/s,
#: https://docs.nvidia.com/dgx/dgxa100-user-guide/introduction-to-dgxa100.html; V100,
#: https://images.nvidia.com/content/technologies/volta/pdf/volta-v100-datasheet-update-us-1165301-r5.pdf,
#: and four adapters of 100 Gb/s for eight, https://docs.nvidia.com/dgx/dgx1-user-guide/.
DEVICE_RATES: Final[Mapping[str, DeviceRates]] = {
    "h100": DeviceRates(
        driver_name="NVIDIA H100 80GB HBM3",
        machine="h100-80gb-hbm3",
        memory_gb_per_s=3350,
        link_gb_per_s=450,
        network_gb_per_s=50,
    ),
    "h200": DeviceRates(
        driver_name="NVIDIA H200",
        machine="h200",
        memory_gb_per_s=4800,
        link_gb_per_s=450,
        network_gb_per_s=50,
    ),
    "a100": DeviceRates(
        driver_name="NVIDIA A100-SXM4-80GB",
        machine="a100-sxm4-80gb",
        memory_gb_per_s=2039,
        link_gb_per_s=300,
        network_gb_per_s=25,
    ),
    "a100-40gb": DeviceRates(
        driver_name="NVIDIA A100-SXM4-40GB",
        machine="a100-sxm4-40gb",
        memory_gb_per_s=1555,
        link_gb_per_s=300,
        network_gb_per_s=25,
    ),
    "v100": DeviceRates(
        driver_name="Tesla V100-SXM2-32GB",
        machine="v100-sxm2-32gb",
        memory_gb_per_s=900,
        link_gb_per_s=150,
        network_gb_per_s=6.25,
    ),
}
