"""Paddle's own launcher reads the GPUs that a user chose: its parser, without a GPU."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_dlperf.launch.plan import make_plan
from tests.helpers.record_files import case
from tests.unit.launch.test_plan import TARGET

pytestmark = pytest.mark.paddle


@pytest.mark.parametrize("visible", ["4,5", "5,4", "GPU-5a0b,GPU-77c1", "4, 5", "2,3,4,5"])
def test_each_rank_has_the_gpu_of_its_number(monkeypatch: pytest.MonkeyPatch, visible: str):
    context = pytest.importorskip("paddle.distributed.launch.context")
    device = pytest.importorskip("paddle.distributed.launch.context.device")
    controllers = pytest.importorskip("paddle.distributed.launch.controllers.controller")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    argv = make_plan(case("1n2g", framework="paddle"), TARGET, Path("/runs/r1")).argv
    monkeypatch.setattr("sys.argv", list(argv[argv.index("paddle.distributed.launch") :]))
    arguments, _ = context.parse_args()
    chosen = device.Device.parse_device()
    controller = SimpleNamespace(
        ctx=SimpleNamespace(args=arguments, node=SimpleNamespace(device=chosen))
    )
    ranks = controllers.Controller.pod_replicas(controller)
    assert ranks == 2
    assert chosen.get_selected_device_key() == "FLAGS_selected_gpus"
    # Numbers among the visible GPUs, rank by rank.
    assert chosen.get_selected_devices(arguments.devices)[:ranks] == ["0", "1"]
