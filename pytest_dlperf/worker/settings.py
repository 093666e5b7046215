"""Records how a rank is set up: variables and flags of its libraries, and installed packages."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pytest_dlperf.core.secret_texts import MASK, masked_variable
from pytest_dlperf.core.wire import INTERPRETER_VARIABLES, LIBRARY_VARIABLES
from pytest_dlperf.core.wire_records import SettingsRecord

#: A launch gives them values of its own: devices, ports, and folders of the session.
_OF_THE_LAUNCH: Final = re.compile(
    r"CUDA_VISIBLE_DEVICES|JAX_COORDINATOR_(BIND_)?ADDRESS|JAX_LOCAL_DEVICE_IDS|NCCL_COMM_ID|TORCHINDUCTOR_CACHE_DIR|FLAGS_selected_.*|FLAGS_START_PORT"
)
#: Characters of a variable's value.
_LONGEST: Final = 500
_INSTALLED: Final = re.compile(r"(?P<name>[^-]+)-(?P<version>[^-]+)(-.*)?\.(dist|egg)-info")


def settings_record() -> SettingsRecord:
    """Return the record ``settings`` of this process, with the values of secrets masked."""
    return SettingsRecord(
        variables=variables(os.environ), flags=flags(), packages=packages(sys.path)
    )


def variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that configure libraries, or slow or instrument the interpreter.

    A secret's value is masked, and the end of a very long one is left out.
    """
    prefixes = (*LIBRARY_VARIABLES, *INTERPRETER_VARIABLES)
    return {
        name: _shown(masked_variable(name, environ[name]))
        for name in sorted(environ)
        if configures(name, prefixes)
    }


def _shown(value: str) -> str:
    if len(value) <= _LONGEST:
        return value
    # As coverage's, which has its whole configuration
    digest = hashlib.sha256(value.encode(errors="surrogateescape")).hexdigest()[:12]
    return f"{value[:_LONGEST]}{MASK} ({len(value)} characters, {digest})"


def configures(name: str, prefixes: tuple[str, ...]) -> bool:
    """Return whether the variable has one of ``prefixes``, and is not of a single launch."""
    return name.startswith(prefixes) and not _OF_THE_LAUNCH.fullmatch(name)


def packages(path: Iterable[str]) -> dict[str, str]:
    """Return the version of every installed package by its name, in lower case with hyphens.

    From the names of the folders beside the packages (PyPA's "Recording installed projects"):
    to read the metadata of hundreds takes a second. The first on ``path`` is imported.
    """
    versions: dict[str, str] = {}
    for folder in path:
        try:
            names = sorted(os.listdir(folder or "."))
        except OSError:
            continue  # an archive, or a folder that is not there
        for match in map(_INSTALLED.fullmatch, names):
            if match is not None:
                name = re.sub(r"[-_.]+", "-", match["name"]).lower()
                versions.setdefault(name, match["version"])
    return dict(sorted(versions.items()))


#: Flag -> its module, and the path in it of its value, or of a function that returns that.
_FLAGS: Final = {
    "cudnn.benchmark": ("torch", "backends.cudnn.benchmark"),
    "cudnn.deterministic": ("torch", "backends.cudnn.deterministic"),
    "deterministic algorithms": ("torch", "are_deterministic_algorithms_enabled"),
    "xla.jit": ("tensorflow", "config.optimizer.get_jit"),
    # Not in its public names, which can only turn it on
    "deterministic ops": ("tensorflow.python.framework.config", "is_op_determinism_enabled"),
}
_PADDLE_FLAGS: Final = (
    "FLAGS_cudnn_exhaustive_search",
    "FLAGS_cudnn_deterministic",
    "FLAGS_embedding_deterministic",
)


def flags() -> dict[str, str]:
    """Return how the imported frameworks choose their kernels, by flags that a program may set.

    What a version does not have is left out.
    """
    values: dict[str, Any] = {}
    for name, (module, path) in _FLAGS.items():
        value: Any = sys.modules.get(module)
        for word in path.split("."):
            value = getattr(value, word, None)
        value = value() if callable(value) else value
        if value is not None:
            values[name] = value
    get_flags: Any = getattr(sys.modules.get("paddle"), "get_flags", None)
    for name in _PADDLE_FLAGS if get_flags is not None else ():
        try:
            values |= get_flags([name])
        except ValueError:
            continue  # a build without CUDA lacks some
    return {name: _words(value) for name, value in values.items()}


def _words(value: object) -> str:
    return ("on" if value else "off") if isinstance(value, bool | int) else str(value or "off")
