"""Judges the inputs of the golden file again, and compares: ``python -m tests.golden.compare``."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.golden.differences import DIFFERENCES, Difference
from tests.golden.golden_file import Record, read
from tests.golden.roads import output_of, road_of

#: Another NumPy or SciPy may round differently.
_RELATIVE: Final = 1e-9
_ABSOLUTE: Final = 1e-12
_ABSENT: Final = "(absent)"
#: Judgements that a report shows in full.
_SHOWN: Final = 20


@dataclass(kw_only=True)
class Report:
    """What a comparison found."""

    judgements: int = 0
    #: Judgements that each rule explains, wholly or in part.
    explained: Counter[str] = field(default_factory=Counter)
    #: Judgements that differ in a field that no rule explains, in words.
    unexplained: list[str] = field(default_factory=list)

    def idle(self, differences: Sequence[Difference]) -> list[str]:
        """Return the names of rules that explain nothing."""
        return [
            difference.name for difference in differences if not self.explained[difference.name]
        ]

    def words(self, differences: Sequence[Difference]) -> str:
        """Return the report: counts, and the first of the judgements that differ."""
        lines = [f"{self.judgements} judgements, {len(self.unexplained)} differ without a name"]
        lines += [
            f"{self.explained[difference.name]:6d} differ by {difference.name}: {difference.why}"
            for difference in differences
        ]
        return "\n\n".join(["\n".join(lines), *self.unexplained[:_SHOWN]])


def compared(records: Iterable[Record], differences: Sequence[Difference] = DIFFERENCES) -> Report:
    """Return how the judge of today differs from the records."""
    report = Report()
    for number, record in enumerate(records):
        report.judgements += 1
        actual = output_of(record.given)
        different = dict(_different(record.output, actual))
        if not different:
            continue
        rules = [rule for rule in differences if rule.applies(record, record.output, actual)]
        for rule in rules:
            if any(_is_of(path, rule) for path in different):
                report.explained[rule.name] += 1
        left = {
            path: values
            for path, values in different.items()
            if not any(_is_of(path, rule) for rule in rules)
        }
        if left:
            report.unexplained.append(_words(number, record, left))
    return report


def _is_of(path: str, rule: Difference) -> bool:
    return any(path == name or path.startswith(f"{name}.") for name in rule.fields)


def _words(number: int, record: Record, different: Mapping[str, tuple[Any, Any]]) -> str:
    lines = [f"judgement {number}, {road_of(record.given)}, of {record.source}:"]
    for path, (expected, actual) in different.items():
        lines += [f"  {path}", f"    was {expected}", f"    is  {actual}"]
    return "\n".join(lines)


def _different(
    expected: Any, actual: Any, path: str = ""
) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Yield what differs: its path, and both values."""
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        for name in sorted({*expected, *actual}):
            sides = expected.get(name, _ABSENT), actual.get(name, _ABSENT)
            yield from _different(*sides, f"{path}.{name}" if path else name)
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        for number, sides in enumerate(zip(expected, actual, strict=True)):
            yield from _different(*sides, f"{path}.{number}")
    elif not _is_same(expected, actual):
        yield path, (expected, actual)


def _is_same(expected: Any, actual: Any) -> bool:
    if isinstance(expected, float) and isinstance(actual, int | float):
        return math.isclose(expected, actual, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)
    return bool(expected == actual)


def main() -> int:
    """Print the report; 1 where a judgement differs without a name."""
    report = compared(read())
    print(report.words(DIFFERENCES))  # noqa: T201
    return 1 if report.unexplained or report.idle(DIFFERENCES) else 0


if __name__ == "__main__":
    sys.exit(main())
