"""The charting library of a page, and its charts, packed so that they can be no markup.

Charts are specifications of Vega-Lite: data, which its published schema checks. Everything is
unpacked in the reader's browser when the first chart is seen.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from importlib import resources
from typing import TYPE_CHECKING, Final

from pytest_dlperf.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_dlperf.report.page.figure import Drawn

_FOLDER: Final = "vendor"
#: In the order in which they need each other.
_LIBRARY: Final = ("vega.min.js", "vega-lite.min.js", "vega-interpreter.js")
#: The interpreter is published as a module alone; what it imports, Vega itself exports.
_IMPORT: Final = (
    "import { ascending, isString, DisallowedObjectProperties } from 'vega-util';",
    "const { ascending, isString, DisallowedObjectProperties } = vega;",
)
_EXPORT: Final = (
    "export { expression as expressionInterpreter };",
    "globalThis.vegaInterpreter = expression;",
)


def library() -> list[str]:
    """Return the scripts that draw charts; raise ``UsageError`` where the package lacks one."""
    folder = resources.files(__package__) / _FOLDER
    scripts = []
    for name in _LIBRARY:
        try:
            scripts.append((folder / name).read_text(encoding="utf-8"))
        except OSError as error:
            raise UsageError(
                f"{folder / name}: {error.strerror}: pytest-dlperf is not installed whole, so it "
                "can make no page; install it again from its wheel"
            ) from error
    scripts[-1] = _as_script(scripts[-1])
    return scripts


def packed(value: str) -> str:
    """Return text compressed, in letters that mean nothing to a browser."""
    # No time in it: the same results make the same page.
    return base64.b64encode(gzip.compress(value.encode(), mtime=0)).decode("ascii")


def packed_charts(charts: Mapping[str, Drawn]) -> str:
    """Return ``charts`` by their keys, packed."""
    values = {key: {"spec": one.spec, "numbers": one.numbers} for key, one in charts.items()}
    # Lone surrogates, which a host's name may have, survive as escapes.
    return packed(json.dumps(values, separators=(",", ":"), allow_nan=False))


def integrity(script: str) -> str:
    """Return the hash by which a page's policy lets a script run."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode('ascii')}"


def _as_script(module: str) -> str:
    lines = [line for line in module.splitlines() if not line.startswith("//# sourceMappingURL")]
    text = "\n".join(lines)
    for was, becomes in (_IMPORT, _EXPORT):
        if was not in text:
            raise UsageError(f"vega-interpreter.js: {was!r} is not in it; this version is unknown")
        text = text.replace(was, becomes)
    return f"(() => {{\n{text}\n}})();"
