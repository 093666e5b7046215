from __future__ import annotations

import importlib.metadata

import pytest

from pytest_dlperf.cases.matrix import expand
from pytest_dlperf.cases.possible import check_possible
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import NotRunError


def case(layout: str, **keys: object) -> Case:
    return expand(
        suite="tsm",
        workload="m:build",
        framework="tensorflow",
        batch_size_per_device=16,
        layout=layout,
        **keys,
    )[0]


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
