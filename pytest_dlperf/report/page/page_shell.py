"""Assemble a whole page: style, script, charts, and its content security policy."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Mapping
from importlib import resources
from typing import Final

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.report.page.figure import Drawn
from pytest_dlperf.report.page.markup import Html, text

# The charting library of a page, and its charts, packed so that they can be no markup.
#
# Charts are specifications of Vega-Lite: data, which its published schema checks. Everything is
# unpacked in the reader's browser when the first chart is seen.

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
#: A developer's tools would look for the file that it names.
_SOURCE_MAP: Final = re.compile(r"^//# sourceMappingURL=.*$", re.MULTILINE)


def library() -> list[str]:
    """Return the scripts that draw charts; raise ``UsageError`` where the package lacks one."""
    folder = resources.files(__package__) / _FOLDER
    scripts = []
    for name in _LIBRARY:
        try:
            script = (folder / name).read_text(encoding="utf-8")
        except OSError as error:
            raise UsageError(
                f"{folder / name}: {error.strerror}: pytest-dlperf is not installed whole, so it "
                "can make no page; install it again from its wheel"
            ) from error
        scripts.append(_SOURCE_MAP.sub("", script))
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
    for was, becomes in (_IMPORT, _EXPORT):
        if was not in module:
            raise UsageError(f"vega-interpreter.js: {was!r} is not in it; this version is unknown")
        module = module.replace(was, becomes)
    return f"(() => {{\n{module}\n}})();"


_NOSCRIPT: Final = (
    "<noscript><p>Charts, sorting and filters need JavaScript; every verdict and figure of the "
    "tables is here without it.</p></noscript>\n"
)


def render_page(*, title: str, body: Html, charts: Mapping[str, Drawn]) -> str:
    """Return one file that needs no other and no network.

    ``body`` is what stands within ``main``; the charts are those of a ``ChartBook``, which has
    put their places into it. Raises ``UsageError`` where the charting library is not installed.
    """
    script, style = _own("page.js"), _own("page.css")
    scripts = library() if charts else []
    allowed = " ".join(f"'{integrity(one)}'" for one in (script, *scripts))
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    blocks = [_block("library", packed(one)) for one in scripts]
    if charts:
        blocks.append(_block("charts", packed_charts(charts)))
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{text(title)}</title>\n<style>{style}</style>\n</head>\n<body>",
            '<a class="skip" href="#main">Skip to the content</a>',
            f'<main id="main" tabindex="-1">\n{_NOSCRIPT if charts else ""}{body}\n</main>',
            *blocks,
            f"<script>{script}</script>\n</body>\n</html>\n",
        ]
    )


def _block(kind: str, content: str) -> str:
    return f'<script type="application/octet-stream" data-block="{kind}">{content}</script>'


def _own(name: str) -> str:
    return (resources.files(__package__) / name).read_text(encoding="utf-8")
