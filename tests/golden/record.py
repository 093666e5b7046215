"""Records the golden file: ``python -m tests.golden.record``, from the root of the repository.

With ``--outputs`` the inputs remain, and the judge of today says what is right from now on: only
after each difference has a name in ``differences.py``, which are deleted then. Without, inputs are
gathered again, which takes minutes.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from pytest_dlperf.core.codec import DecodeError
from tests.golden.golden_file import PATH, Record, as_written, read, write
from tests.golden.harvest import harvested
from tests.golden.made import made
from tests.golden.made_of_two import made_of
from tests.golden.roads import Input, Output, output_of, road_of
from tests.golden.table import table

_ROOT: Final = Path(__file__).parents[2]
#: How many judgements the file has of each kind of sentence, and of comparisons, on a road; and of
#: each verdict of one test.
_OF_KIND: Final = 5
_OF_TEST: Final = 3
_NUMBER: Final = re.compile(r"[-+]?\d[\d.,e+-]*")


def main() -> int:
    """Write the file, and print a table of what it holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--outputs", action="store_true", help="keep the inputs of the file")
    if parser.parse_args().outputs:
        records = [replace(record, output=output_of(record.given)) for record in read()]
    else:
        first = chosen(judged(gathered()))
        inputs = [(record.source, record.given) for record in first]
        records = [*first, *chosen(judged(made_of(inputs)))]
    write(PATH, records)
    print(f"{table(read())}\n{PATH.stat().st_size / 2**20:.1f} MiB")  # noqa: T201
    return 0


def gathered() -> Iterator[tuple[str, Input]]:
    """Yield more inputs than the file can hold, with their sources."""
    sys.path.insert(0, str(_ROOT / "benchmarks"))
    yield from harvested()
    yield from _written(made())


def _written(inputs: Iterable[tuple[str, Input]]) -> Iterator[tuple[str, Input]]:
    for source, given in inputs:
        try:
            yield source, as_written(given)
        except DecodeError as error:
            raise SystemExit(f"{source}: {error}") from error


def judged(inputs: Iterable[tuple[str, Input]]) -> Iterator[Record]:
    """Yield the records of inputs, each once."""
    inputs_by_output: defaultdict[str, list[Input]] = defaultdict(list)
    for source, given in inputs:
        output = output_of(given)
        same = inputs_by_output[repr(output)]
        if given not in same:
            same.append(given)
            yield Record(source=source, given=given, output=output)


def chosen(records: Iterable[Record]) -> list[Record]:
    """Return records that have something of which few others are chosen yet."""
    count: Counter[tuple[object, ...]] = Counter()
    kept = []
    for record in records:
        kinds = set(_kinds(record))
        of_test = record.source, *_verdict(record)
        few = any(count[kind] < _OF_KIND for kind in kinds)
        if few or (".py::" in record.source and count[of_test] < _OF_TEST):
            count.update(kinds)
            count[of_test] += 1
            kept.append(record)
    return kept


def _kinds(record: Record) -> Iterator[tuple[object, ...]]:
    """Yield what a judgement has: clauses without numbers, and comparisons by their verdicts."""
    road, output = road_of(record.given), record.output
    verdict = _verdict(record)
    for text in (output.get("reason", ""), output.get("message", ""), *output.get("details", ())):
        for clause in re.split(r"; |\n|: ", text):
            yield road, _NUMBER.sub("#", clause)
    for metric in _verdicts(output.get("metrics", {})):
        yield road, verdict, metric
    yield road, output.get("more runs"), len(output.get("pairs with the session of", ()))
    yield road, verdict, output.get("known"), tuple(sorted(output.get("throughput", ())))
    for session in (*output.get("each", ()), *output.get("aside", ())):
        yield road, _verdicts(session["metrics"]), tuple(session["alarms"])


def _verdict(record: Record) -> tuple[object, ...]:
    throughput = record.output.get("throughput", {})
    return record.output.get("verdict"), throughput.get("verdict")


def _verdicts(comparisons: Mapping[str, Output]) -> tuple[tuple[str, object], ...]:
    return tuple(
        sorted((name, comparison.get("verdict")) for name, comparison in comparisons.items())
    )


if __name__ == "__main__":
    sys.exit(main())
