"""Read and write the text of a baseline file, with checks of files edited by hand.

Readable diffs matter more than size: sorted keys, one field a line, the runs of one session on
one line.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from pytest_dlperf.core.baseline import Baseline, Session, is_instant
from pytest_dlperf.core.codec import DecodeError, decode, encode
from pytest_dlperf.core.measurement import Conditions
from pytest_dlperf.store.baseline.key import MEASURED, PUBLISHED, Key


class OtherFormatError(DecodeError):
    """A file is of a format that this version does not read."""


def find_nonsense(baseline: Baseline, key: Key) -> str:
    """Return the first field that makes no sense, and why; nothing if all is well.

    ``key`` is what the path of the file says.
    """
    return next(_problems(baseline, key), "")


def _problems(baseline: Baseline, key: Key) -> Iterator[str]:
    yield from _names(baseline, key)
    if not baseline.unit.strip():
        yield "unit: empty; name what is counted, such as samples or images"
    yield from _conditions(baseline)
    if baseline.tolerance is not None and not 0 <= baseline.tolerance < 1:
        yield f"tolerance: {baseline.tolerance} must be a share from 0 to below 1"
    published = baseline.source.kind == PUBLISHED
    yield from _sessions(baseline.sessions, "sessions", published=published)
    if baseline.anchor is not None:
        yield from _session(baseline.anchor, "anchor", published=published)
    for i, level in enumerate(baseline.history):
        yield from _time(level.replaced, f"history[{i}].replaced", may_be_empty=False)
        yield from _sessions(level.sessions, f"history[{i}].sessions", published=published)
    yield from stored_twice(baseline)


def stored_twice(baseline: Baseline) -> Iterator[str]:
    """Yield the field of each session that the file has twice, and where it is first.

    A bad merge leaves one: it would count twice, and look like less noise.
    """
    places: dict[object, str] = {}
    named = [("sessions", baseline.sessions)]
    named += [(f"history[{i}].sessions", old.sessions) for i, old in enumerate(baseline.history)]
    for where, sessions in named:
        for i, session in enumerate(sessions):
            if not session.time:
                continue  # published numbers, which have none
            field = f"{where}[{i}]"
            first = places.setdefault(session.identity, field)
            if first != field:
                yield f"{field}: the session of {session.time} appears twice, see {first}"


def _names(baseline: Baseline, key: Key) -> Iterator[str]:
    for field, name, in_path in (
        ("case_id", baseline.case_id, key.case_id),
        ("suite", baseline.suite, key.suite),
        ("machine_class", baseline.machine_class, key.machine_class),
        ("source.kind", baseline.source.kind, key.kind),
    ):
        if name != in_path:
            yield f"{field}: {name!r}, but the path of the file says {in_path!r}"
    # tsm.tiny-torch-fp32-bs2-1n2c is of the suite tsm
    if baseline.case_id.partition("-")[0].partition(".")[0] != baseline.suite:
        yield f"case_id: {baseline.case_id!r} does not belong to the suite {baseline.suite!r}"


def _conditions(baseline: Baseline) -> Iterator[str]:
    conditions = baseline.conditions
    if conditions is None:
        if baseline.source.kind == MEASURED:
            yield "conditions: null, which only published numbers may have"
        return
    if conditions.unit != baseline.unit:
        yield f"conditions.unit: {conditions.unit!r}, but unit is {baseline.unit!r}"
    yield from _counts(conditions)


def _counts(conditions: Conditions) -> Iterator[str]:
    first, end = conditions.window
    if not 0 <= first < end:
        yield f"conditions.window: {first} to {end} holds no iteration"
    for name in ("world_size", "batch_size_per_device"):
        if getattr(conditions, name) < 1:
            yield f"conditions.{name}: {getattr(conditions, name)} is below 1"


def _sessions(sessions: Sequence[Session], where: str, *, published: bool) -> Iterator[str]:
    if not sessions:
        yield f"{where}: empty, so nothing was measured"
    elif all(session.is_set_aside for session in sessions):
        yield (
            f"{where}: observe mode set all of them aside, so no level is left; empty the reason "
            "of those that are one"
        )
    for i, session in enumerate(sessions):
        yield from _session(session, f"{where}[{i}]", published=published)


def _session(session: Session, where: str, *, published: bool) -> Iterator[str]:
    yield from _time(session.time, f"{where}.time", may_be_empty=published)
    if not session.runs:
        yield f"{where}.runs: empty, so nothing was measured"
    yield from _positive(enumerate(session.runs), f"{where}.runs")
    yield from _positive(enumerate(session.parent_runs), f"{where}.parent_runs")
    yield from _positive(enumerate(session.peak_memory_bytes), f"{where}.peak_memory_bytes")
    yield from _positive(session.canary.items(), f"{where}.canary")
    for node, canary in session.canary_by_node.items():
        yield from _positive(canary.items(), f"{where}.canary_by_node.{node}")
    yield from _rates_by_run(session.estimates, session, f"{where}.estimates")
    for name, metric in session.metrics.items():
        if len(metric.runs) != len(session.runs):
            field = f"{where}.metrics.{name}.runs"
            yield f"{field}: {len(metric.runs)} values for {len(session.runs)} runs"
    if session.speedup is not None and not _is_positive(session.speedup):
        yield f"{where}.speedup: {session.speedup} must be above 0"
    yield from _scaling(session, where)
    yield from _shape(session, where, published=published)


def _scaling(session: Session, where: str) -> Iterator[str]:
    if session.scaling is None:
        return
    field = f"{where}.scaling"
    for i, share in enumerate(session.scaling.collectives_shares):
        if not 0 <= share <= 1:
            yield f"{field}.collectives_shares[{i}]: {share} must be a share from 0 to 1"
    for i, skew in enumerate(session.scaling.skews):
        if not -1 < skew < math.inf:
            yield f"{field}.skews[{i}]: {skew} must be above -1 and finite"
    yield from _positive(
        session.scaling.all_reduce_gb_per_s.items(), f"{field}.all_reduce_gb_per_s"
    )


def _rates_by_run(
    estimates: Mapping[str, tuple[float, ...]], session: Session, where: str
) -> Iterator[str]:
    for name, rates in estimates.items():
        if len(rates) != len(session.runs):
            yield f"{where}.{name}: {len(rates)} values for {len(session.runs)} runs"
        yield from _positive(enumerate(rates), f"{where}.{name}")


def _shape(session: Session, where: str, *, published: bool) -> Iterator[str]:
    """Check that the parts of a session fit: one value a run, parents to a speedup."""
    memory, runs = len(session.peak_memory_bytes), len(session.runs)
    if memory not in {0, runs}:
        yield f"{where}.peak_memory_bytes: {memory} values for {runs} runs"
    if published:
        return
    if session.parent_runs and session.speedup is None:
        yield f"{where}.speedup: null, although parent_runs are there"
    if session.speedup is not None and not session.parent_runs:
        yield f"{where}.parent_runs: empty, although a speedup is there"


def _positive(values: Iterable[tuple[int | str, float]], where: str) -> Iterator[str]:
    for name, value in values:
        if not _is_positive(value):
            yield f"{where}[{name}]: {value} must be finite and above 0; leave out what is unknown"


def _is_positive(value: float) -> bool:
    return math.isfinite(value) and value > 0


def _time(text: str, where: str, *, may_be_empty: bool) -> Iterator[str]:
    if not text and may_be_empty:
        return
    if not is_instant(text):
        yield f"{where}: {text!r} is not a time; write it as 2026-11-21T04:02:00Z"


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
    return _NUMBER_LIST.sub(lambda match: f"[{_BREAK.sub(', ', match[1])}]", text)


def from_bytes(content: bytes, key: Key) -> Baseline:
    """Return the baseline that ``content`` holds, checked throughout.

    ``key`` is what the file's path says of it. Raises ``DecodeError``, whose message begins
    with the field, for everything that ``to_bytes`` of a sound baseline would not write.
    """
    values = parse(content)
    if not isinstance(values, dict):
        raise DecodeError("the whole file: not a JSON object")
    file_format = values.pop("format", None)
    if type(file_format) is not int or file_format != FILE_FORMAT:
        raise OtherFormatError(f"format: {file_format!r}, and this version reads {FILE_FORMAT}")
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
    """Refuse a duplicate key: a merge by hand can leave one, and JSON would drop one side."""
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise DecodeError(f"{twice}: appears twice in one object")
    return values
