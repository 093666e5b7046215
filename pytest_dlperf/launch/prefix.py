"""A command behind a prefix: a container's, numactl's ..., which may not hand environment on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def behind(
    prefix: tuple[str, ...], argv: tuple[str, ...], env: Mapping[str, str], *, keep: str
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the command and the environment of ``argv`` started behind ``prefix``.

    The environment travels in the command, by ``env``: a container starts with its image's
    own. ``keep`` is set outside as well: by it the prefix's own processes are found again.
    """
    if not prefix:
        return argv, dict(env)
    assignments = (f"{name}={value}" for name, value in sorted(env.items()))
    return (*prefix, "env", *assignments, *argv), {keep: env[keep]}
