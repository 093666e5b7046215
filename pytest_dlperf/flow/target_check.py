"""Whether a case can run where a probe has looked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_dlperf.cases.versions import check_version
from pytest_dlperf.core.errors import CaseError, NotRunError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_dlperf.core.case import Case


def check_probed(case: Case, facts: Mapping[str, Any], where: str) -> None:
    """Raise ``NotRunError`` or ``CaseError`` if the target lacks what ``case`` needs.

    ``facts`` is the probe's answer; ``where`` names the target, for people.
    """
    version = facts["framework_version"]
    if version is None:
        raise NotRunError(f"{case.framework} is not installed {where} ({facts['executable']})")
    if not case.command:
        keras_2 = facts.get("keras", "3").startswith("2")
        check_version(case.framework, version, where=where, keras_2=keras_2)
    needed = case.layout.devices_per_node
    if case.layout.device == "gpu" and facts["gpus"] < needed:
        raise CaseError(
            f"{case.id}: {case.framework} {version} {where} sees {facts['gpus']} GPUs, "
            f"{case.layout} needs {needed}; a container is given them by --gpus all, and a build "
            "without CUDA sees none"
        )
