"""The numbers that each rule takes from a report's logs: by model, devices, and runs."""

from __future__ import annotations

import itertools
import os
import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Final, Literal

from pytest_dlperf.core.quantity import same_precision
from pytest_dlperf.measure.logs import rules
from pytest_dlperf.measure.logs.extract import LogResult
from pytest_dlperf.measure.logs.path_words import Place, name_of

Kind = Literal["rate", "speedup", "loss"]
_NUMBER: Final = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?")
_RULE_LINE: Final = re.compile(r"[\s|:-]+")
#: How first cells name devices: ``8卡``, ``GPU=8,BS=2``, ``1n8g``, ``8 GPUs``, or a bare number.
_DEVICES: Final = re.compile(
    r"(?:GPU\s*=\s*|^\s*)(\d+)(?:\s*(?:卡|GPUs?|cards?|devices?))?\b", re.IGNORECASE
)
#: A header may name them too, never by a bare number.
_HEADER_DEVICES: Final = re.compile(
    r"(?:\bGPUs?\s*=\s*(\d+)|(?<![\w.])(\d+)\s*[x*]?\s*(?:卡|GPUs?\b|cards?\b|devices?\b))",
    re.IGNORECASE,
)
_LAYOUT: Final = re.compile(r"(?<![A-Za-z0-9])(\d{1,4})n(\d{1,4})[gc](?![A-Za-z0-9])")
_BATCH: Final = re.compile(
    r"(?<![A-Za-z])(?:BS|batch[ _-]?size)\s*=?\s*(\d{1,9})(?![A-Za-z0-9])", re.IGNORECASE
)
_PRECISION: Final = re.compile(
    r"(?<![A-Za-z0-9])(pure_fp16|fp32|tf32|bf16|fp16|amp)(?![A-Za-z0-9])", re.IGNORECASE
)
#: Columns that describe a row, and measure nothing.
_BATCH_KEY: Final = re.compile(
    r"(?:(?:total|global|local|micro|per[ _-]?(?:gpu|device|card))[ _-]*)?"
    r"(?:bs|bsz|batch(?:[ _-]*sizes?)?|batch大小|批大小)"
    r"(?:[ _-]*(?:(?:per|/)[ _-]*(?:gpu|device|card))|\s*[(\uff08].*)?",
    re.IGNORECASE,
)
_MANY: Final = r"(?:(?:#|num(?:ber)?(?:[ _-]*of)?|total)[ _-]*)?"
_COUNT: Final = r"(?:[ _-]*(?:num|number|count))?"
_DEVICES_KEY: Final = re.compile(
    rf"{_MANY}(?:gpus?|devices?|cards?|ranks?|world[ _-]*size){_COUNT}"
    r"|(?:gpu)?卡数?|(?:gpu|设备)数量?",
    re.IGNORECASE,
)
_NODES_KEY: Final = re.compile(
    rf"{_MANY}(?:nodes?|hosts?|machines?){_COUNT}|(?:节点|机器)数量?", re.IGNORECASE
)
_PER_NODE_KEY: Final = re.compile(
    rf"{_MANY}(?:gpus?|devices?|cards?){_COUNT}[ _-]*(?:per|/)[ _-]*(?:node|host|machine)s?"
    r"|(?:单机|每机|每节点)(?:gpu)?卡数",
    re.IGNORECASE,
)
_KEYS: Final = (_BATCH_KEY, _DEVICES_KEY, _NODES_KEY, _PER_NODE_KEY)
_SPEEDUP: Final = re.compile(r"speed-?\s?up|加速", re.IGNORECASE)
_LOSS: Final = re.compile(r"loss|损失", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """A number of a table, with the words of its row and column; None where they do not say."""

    #: Tables of the text, lines of the text, and columns of the table, from 0.
    table: int
    line: int
    column_number: int
    row: str
    column: str
    text: str
    value: float
    kind: Kind
    devices: int | None
    batch_size: int | None
    precision: str | None


def cells_of(markdown: str) -> Iterator[Cell]:
    """Yield the numbers of every Markdown table in a text that measure something.

    Empty cells, words, and the columns of devices, nodes and batch sizes are none.
    """
    header: list[str] = []
    table = -1
    for number, line in enumerate(markdown.splitlines()):
        if "|" not in line:
            header = []
            continue
        words = [word.strip().strip("*`") for word in line.strip().strip("|").split("|")]
        if not header:
            header, table = words, table + 1
            continue
        if _RULE_LINE.fullmatch(line):
            continue
        for cell in _cells_of_row(header, words):
            yield replace(cell, table=table, line=number)


def _cells_of_row(header: Sequence[str], words: Sequence[str]) -> Iterator[Cell]:
    row_devices = _row_devices(header, words)
    row_batch = _key(header, words, _BATCH_KEY) or _number(_BATCH, words[0])
    for number, (column, text) in list(enumerate(zip(header, words, strict=False)))[1:]:
        match = _NUMBER.fullmatch(text)
        if match is None or _is_key(column):
            continue
        value = float(text.replace(",", ""))
        if value <= 0:
            continue
        precision = _PRECISION.search(column) or _PRECISION.search(words[0])
        yield Cell(
            table=0,
            line=0,
            column_number=number,
            row=words[0],
            column=column,
            text=text,
            value=value,
            kind=_kind(column),
            devices=row_devices or _header_devices(column),
            batch_size=_number(_BATCH, column) or row_batch,
            precision=precision[1].lower() if precision else None,
        )


def _is_key(column: str) -> bool:
    return any(key.fullmatch(column) for key in _KEYS)


def _kind(column: str) -> Kind:
    if _LOSS.search(column):
        return "loss"
    return "speedup" if _SPEEDUP.search(column) else "rate"


def _key(header: Sequence[str], words: Sequence[str], key: re.Pattern[str]) -> int | None:
    """Return the number in the first column whose header says that it is such a key."""
    for column, word in zip(header, words, strict=False):
        if key.fullmatch(column) and word.isdecimal():
            return int(word)
    return None


def _number(pattern: re.Pattern[str], text: str) -> int | None:
    match = pattern.search(text)
    return int(match[1]) if match else None


def _row_devices(header: Sequence[str], words: Sequence[str]) -> int | None:
    if (named := _key(header, words, _DEVICES_KEY)) is not None:
        return named
    if (each := _key(header, words, _PER_NODE_KEY)) is not None:
        nodes = _key(header, words, _NODES_KEY)
        return None if nodes is None else nodes * each
    if _NODES_KEY.fullmatch(header[0]):
        return None
    if layout := _LAYOUT.search(words[0]):
        return int(layout[1]) * int(layout[2])
    return _number(_DEVICES, words[0])


def _header_devices(column: str) -> int | None:
    if layout := _LAYOUT.search(column):
        return int(layout[1]) * int(layout[2])
    match = _HEADER_DEVICES.search(column)
    return int(match[1] or match[2]) if match else None


#: The rule of columns of losses, and of no others.
LOSS: Final = "the last loss"
_SUMMARIES: Final = ("median", "mean")


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnRule:
    """How a column was made: a rate of each log, and which of several runs, or what of them."""

    base: str
    #: ``median``, ``mean``, or the number of a run.
    over: str

    @property
    def is_summary(self) -> bool:
        """Whether it takes all the runs of a layout."""
        return self.over in _SUMMARIES


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """A value that a rule gets from logs."""

    value: float
    rule: str
    logs: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Training:
    """Logs that differ by devices and run alone."""

    name: str
    batch_size_per_device: int | None
    precision: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """The runs of one training on as many devices, each with what every base rule gets."""

    training: Training
    devices: int | None
    #: Number of the run, its path, its values.
    runs: tuple[tuple[str, str, Mapping[str, float]], ...]

    def get(self, rule: ColumnRule) -> Found | None:
        """Return what a rule gets; None where a run has no such value."""
        chosen = [run for run in self.runs if rule.is_summary or run[0] == rule.over]
        if not chosen or any(rule.base not in values for _, _, values in chosen):
            return None
        rates = [values[rule.base] for _, _, values in chosen]
        value = statistics.fmean(rates) if rule.over == "mean" else statistics.median(rates)
        if len(self.runs) == 1:
            return Found(value=value, rule=rule.base, logs=self.runs[0][1])
        if not rule.is_summary:
            return Found(value=value, rule=f"{rule.base} of run {rule.over}", logs=chosen[0][1])
        logs = f"{len(chosen)} logs like {chosen[0][1]}"
        return Found(value=value, rule=f"{rule.over} over runs of {rule.base}", logs=logs)

    def may_be_of(self, cell: Cell) -> bool:
        """Whether nothing around a cell speaks against it."""
        batch = self.training.batch_size_per_device
        whole = None if batch is None or self.devices is None else batch * self.devices
        precision = self.training.precision
        return (
            (cell.devices is None or self.devices is None or cell.devices == self.devices)
            and (cell.batch_size is None or batch is None or cell.batch_size in {batch, whole})
            and (
                cell.precision is None
                or precision is None
                or same_precision(cell.precision, precision)
            )
        )


def groups_of(results: Sequence[LogResult], skip: int) -> list[Group]:
    """Return the logs that give a number, the runs of one training together."""
    folders = [PurePath(os.path.abspath(result.path)).parent for result in results]
    root = os.path.commonpath(folders) if folders else ""
    by_training: defaultdict[tuple[Training, int | None], list[LogResult]] = defaultdict(list)
    for result in results:
        by_training[_training(result, root), result.world_size].append(result)
    groups = []
    for (training, devices), logs in by_training.items():
        runs = []
        for number, result in enumerate(logs, 1):
            place = Place.of(result.path)
            values = _values(result, skip)
            if values:
                runs.append((str(place.run if place else number), result.path, values))
        if runs:
            groups.append(Group(training=training, devices=devices, runs=tuple(runs)))
    return groups


def _training(result: LogResult, root: str) -> Training:
    place = Place.of(result.path)
    if place is None:
        name = name_of(os.path.abspath(result.path), root)
    else:
        name = f"{PurePath(result.path).parent.parent}/{place.model}"
    return Training(
        name=name,
        batch_size_per_device=result.batch_size_per_device,
        precision=result.precision,
    )


def _values(result: LogResult, skip: int) -> dict[str, float]:
    """Return the rate by each rule, whole and of one device, and the last loss."""
    values: dict[str, float] = {}
    if result.estimates is not None and result.throughput is not None:
        values["time-weighted"] = result.estimates.time_weighted
        values["mean of rates"] = result.estimates.mean_of_rates
        values["median of rates"] = result.estimates.median_of_rates
    for name, until in itertools.product(("dlperf", "dlperf-time"), (150, 600)):
        if result.series is None:
            continue
        rate = rules.named(name)(result.series, skip, until).throughput
        if rate is not None:
            values[f"{name}, steps {skip} to {until}"] = rate
    if result.whole_run is not None:
        values["the program's own mean of the whole run"] = result.whole_run
    if result.world_size and result.world_size > 1:
        each = {f"{rule}, a device": rate / result.world_size for rule, rate in values.items()}
        values |= each
    if result.loss_last is not None:
        values[LOSS] = result.loss_last
    return values


def rules_of(groups: Iterable[Group]) -> list[ColumnRule]:
    """Return every rule that gets something; summaries first."""
    runs = [run for group in groups for run in group.runs]
    bases = dict.fromkeys(base for _, _, values in runs for base in values)
    numbers = dict.fromkeys(number for number, _, _ in runs)
    return [ColumnRule(base=base, over=over) for over in (*_SUMMARIES, *numbers) for base in bases]
