"""The text of a baseline file, and back.

Readable diffs matter more than size: sorted keys, one field a line, the runs of one session on
one line.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from pytest_dlperf.core.baseline import Baseline
from pytest_dlperf.core.codec import DecodeError, decode, encode
from pytest_dlperf.store.baseline.validate import find_nonsense

if TYPE_CHECKING:
    from pytest_dlperf.store.baseline.key import Key

#: Version of baseline files. 1: the first.
FILE_FORMAT: Final = 1
_NUMBER = r"-?\d[\d.eE+-]*"
#: JSON text holds no line break within a string, so this fits lists only.
_NUMBER_LIST = re.compile(rf"\[\n\s*({_NUMBER}(?:,\n\s*{_NUMBER})*)\n\s*\]")
_BREAK = re.compile(r",\n\s*")


def to_bytes(baseline: Baseline) -> bytes:
    """Return the contents of the file of ``baseline``; it is not checked here."""
    text = json_text({"format": FILE_FORMAT, **encode(baseline)})
    # A reason from a command line that is not UTF-8 has surrogates: JSON writes them escaped
    return f"{text}\n".encode("utf-8", "backslashreplace")


def json_text(values: dict[str, Any]) -> str:
    """Return ``values`` as a baseline file has them, without the last line break."""
    text = json.dumps(values, indent=2, sort_keys=True, ensure_ascii=False)
    return _NUMBER_LIST.sub(lambda found: f"[{_BREAK.sub(', ', found[1])}]", text)


def from_bytes(content: bytes, key: Key) -> Baseline:
    """Return the baseline that ``content`` holds, checked throughout.

    ``key`` is what the file's path says of it. Raises ``DecodeError``, whose message begins
    with the field, for everything that ``to_bytes`` of a sound baseline would not write.
    """
    values = parse(content)
    if not isinstance(values, dict):
        raise DecodeError("the whole file: not a JSON object")
    found = values.pop("format", None)
    if type(found) is not int or found != FILE_FORMAT:
        raise DecodeError(f"format: {found!r}, and this version reads {FILE_FORMAT}")
    baseline = decode(Baseline, values)
    if problem := find_nonsense(baseline, key):
        raise DecodeError(problem)
    return baseline


def parse(content: bytes) -> Any:
    """Return what JSON text holds; raise ``DecodeError`` that says where it is none."""
    try:
        return json.loads(content.decode("utf-8"), object_pairs_hook=_unique)
    except DecodeError:
        raise
    except UnicodeDecodeError as error:
        raise DecodeError(f"byte {error.start}: not UTF-8") from error
    except json.JSONDecodeError as error:
        raise DecodeError(
            f"line {error.lineno}, column {error.colno}: not JSON ({error.msg})"
        ) from error
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"the whole file: not JSON ({error})") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a key that stands twice: a merge made by hand leaves such, and one side is lost."""
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise DecodeError(f"{twice}: stands twice in one object")
    return values
