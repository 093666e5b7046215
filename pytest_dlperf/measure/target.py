"""Adds what a probe told of the target to the environment of an outcome."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_dlperf.core.environment import Environment


def with_target(
    environment: Environment, probed: Mapping[str, Any], *, prefix: str
) -> Environment:
    """Return ``environment`` as it is where ranks start, behind ``prefix``.

    What ranks reported counts before what the probe told; image and operating system are the
    probe's to tell, as the pytest side sees its own only.
    """
    told = {
        str(probed.get("framework")): probed.get("framework_version"),
        **{name: probed.get(name) for name in ("python", "cuda", "cudnn", "nccl")},
    }
    own = {
        "prefix": prefix or None,
        "image": probed.get("image"),
        "os of the ranks": probed.get("os"),
    }
    software = {**_known(told), **environment.software, **_known(own)}
    if probed and not own["image"]:
        software.pop("image", None)  # that of the pytest side
    return replace(environment, software=software)


def _known(facts: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in facts.items() if value is not None}
