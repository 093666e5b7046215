"""The container image that this process runs in, as far as one can know from inside."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Variables that hold an image's name or path: the user's own word first, then GitLab's runner,
#: Apptainer and Singularity.
_NAMES: Final = ("DLPERF_IMAGE", "CI_JOB_IMAGE", "APPTAINER_CONTAINER", "SINGULARITY_CONTAINER")
#: NGC's images say product and version, not their name.
_NGC_VERSION: Final = re.compile(r"NVIDIA_(PYTORCH|TENSORFLOW|PADDLEPADDLE)_VERSION")
#: Written by podman into its containers.
_PODMAN_IMAGE: Final = re.compile(r'^image="([^"]+)"$', re.MULTILINE)


def image_name(environ: Mapping[str, str], root: Path = Path("/")) -> str | None:
    """Return the image's name; None outside of containers, and where nothing tells it.

    Docker tells its containers nothing: there ``DLPERF_IMAGE`` is the way to record it.
    """
    for name in _NAMES:
        if environ.get(name):
            return environ[name]
    for name in sorted(environ):
        match = _NGC_VERSION.fullmatch(name)
        if match and environ[name]:
            return f"NGC {match[1].lower()} {environ[name]}"
    match = _PODMAN_IMAGE.search(_read(root / "run/.containerenv"))
    return match[1] if match else None


def container_kind(environ: Mapping[str, str], root: Path = Path("/")) -> str | None:
    """Return what kind of container this is; None outside, or if it is not told."""
    if (root / ".dockerenv").exists():
        return "docker"
    if (root / "run/.containerenv").exists():
        return "podman"
    if environ.get("APPTAINER_NAME") or environ.get("SINGULARITY_NAME"):
        return "apptainer"
    if environ.get("KUBERNETES_SERVICE_HOST"):
        return "kubernetes"
    return environ.get("container") or None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
