"""Read one log: its format, its windows of counted iterations, and the facts that it states."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from pytest_dlperf.measure.logs import facts, rules, trained
from pytest_dlperf.measure.logs.block import Block
from pytest_dlperf.measure.logs.clean import BLOCK_BYTES, LINE_BYTES
from pytest_dlperf.measure.logs.clocks import Clock
from pytest_dlperf.measure.logs.declare import Format, LogRecord
from pytest_dlperf.measure.logs.facts import Facts
from pytest_dlperf.measure.logs.joined import Joined
from pytest_dlperf.measure.logs.records import Columns, Reader
from pytest_dlperf.measure.logs.registry import ITERATIONS, needed_before, sniff
from pytest_dlperf.measure.logs.shapes import Row
from pytest_dlperf.measure.logs.sieve import Sieve
from pytest_dlperf.measure.logs.timeline import Counted, Timeline

_LAST_WORDS: Final = re.compile(rb"\D*\Z")
#: More of a line's end is not looked at.
_LAST_BYTES: Final = 80


@dataclass(frozen=True, kw_only=True, slots=True)
class ParseOptions:
    """How a log is to be read, and what the user or the case says of its run; None is unknown."""

    #: None: the one that reads the most lines.
    fmt: Format | None = None
    #: Iterations are counted, by their times: rates are left out.
    in_iterations: bool = False
    rule: str = "time-weighted"
    skip: int = 50
    until: int | None = None
    #: Of a replica, where ranks share a batch.
    batch_size_per_device: int | None = None
    #: Work of a replica in one iteration, in the unit of the log.
    work_per_device: float | None = None
    world_size: int | None = None
    #: Number of ranks that share a batch.
    split: int = 1
    #: Only compared with what the log says.
    precision: str | None = None
    devices_per_node: int | None = None

    @property
    def last(self) -> int | None:
        """The last iteration that the rule takes; None: to the end."""
        return rules.last_step(self.until) if self.rule in rules.BY_LABEL else self.until


@dataclass(kw_only=True, slots=True)
class ParsedLog:
    """One log as it was read: all that its result is made of."""

    path: str
    options: ParseOptions
    fmt: Format
    #: Of the format by itself, also where iterations are counted.
    own_unit: str
    timeline: Timeline
    log_facts: Facts
    path_facts: Facts
    #: Iterations that were counted at the end of each stretch.
    ends: tuple[int, ...]
    clock: Clock

    @property
    def has_several_runs(self) -> bool:
        """Whether the log holds more than one run."""
        log = self.log_facts
        two_runs = log.two_worlds is not None or log.two_works is not None
        again = log.restarts.word or log.restarts.break_word
        return self.timeline.several_runs or two_runs or bool(again)

    @property
    def better_choice(self) -> Counted | None:
        """The rank or bar to count instead; None if the right one was counted.

        Some logs show only at their end which it is.
        """
        lead = self.timeline.ranks.better_lead
        bars = self.timeline.bars
        total = bars.training if bars.is_unsure else None
        return None if lead is None and total is None else Counted(lead=lead, bar_total=total)


def read(
    stretches: Iterable[Iterable[bytes]],
    path: str,
    options: ParseOptions,
    counted: Counted | None = None,
) -> ParsedLog | None:
    """Read a log in stretches of plain blocks; None if no line is a record of a known format.

    ``counted`` is the rank or progress bar to count, where an earlier reading found it out.
    """
    log_facts = Facts(asks_whose_rates=options.fmt is not None and not options.fmt.is_scope_said)
    counting = None
    own_unit = ""
    ends = []
    for stretch in stretches:
        blocks: Iterable[Block] = _watched(stretch, log_facts)
        if counting is None and (begin := _begin(iter(blocks), options.fmt, log_facts)):
            fmt, blocks = begin
            own_unit = fmt.unit
            if options.in_iterations:
                fmt = replace(fmt, unit=ITERATIONS)
            counting = _Counting(fmt, options, counted)
        if counting is not None:
            counting.take(blocks)
        ends.append(0 if counting is None else counting.iterations)
    if counting is None:
        if options.fmt is None:
            return None
        counting = _Counting(options.fmt, options, counted)
        own_unit = options.fmt.unit
    log_facts.look_at_end(counting.fmt.anchors)
    return ParsedLog(
        path=path,
        options=options,
        fmt=counting.fmt,
        own_unit=own_unit,
        timeline=counting.timeline,
        log_facts=log_facts,
        path_facts=facts.facts_of_path(path),
        ends=tuple(ends),
        clock=counting.clock,
    )


class _Counting:
    """Counts the iterations of the blocks of a log, from the first that has a record on."""

    def __init__(self, fmt: Format, options: ParseOptions, counted: Counted | None) -> None:
        self.fmt = fmt
        heard = trained.with_words(fmt.for_log())
        self.timeline = Timeline(fmt, counted or Counted())
        self._joined = Joined(fmt)
        self._reader = Reader(heard, stamped=rules.needs_stamps(options.rule))
        self._sieve = Sieve(heard.anchors)

    def take(self, blocks: Iterable[Block]) -> None:
        """Take in plain blocks, whole lines."""
        for block in self._sieve.blocks(blocks):
            self.timeline.add(self._joined.columns(self._reader.columns(block)))
        self.timeline.add(self._joined.end())
        last = None if self.fmt.unread_at_end is None else self.fmt.unread_at_end()
        if last is not None:
            self.timeline.add(Columns(1, rows=[Row(LogRecord(step=last, unread=1), None, None)]))

    @property
    def clock(self) -> Clock:
        """The clock of the lines."""
        return self._reader.clock

    @property
    def iterations(self) -> int:
        """Iterations so far; the first record does not show how many it is of."""
        return self.timeline.iterations if self.timeline.steps > 1 else 0


def _watched(texts: Iterable[bytes], log_facts: Facts) -> Iterator[Block]:
    """Pass the blocks on, whole lines, and take in what each says of the run.

    A file that ends within a line may end within a number: that line is no record, unless it ends
    as the one before it does, with a word behind its last number.
    """
    before = b""
    for text in texts:
        block = Block(text)
        log_facts.watch(block)
        end = block.rfind(b"\n") + 1
        if end:
            before = block[block.rfind(b"\n", 0, end - 1) + 1 : end - 1]
        last = block[end:]
        if last and _last_words(last) and _last_words(last) == _last_words(before):
            yield Block(block + b"\n")
            continue
        log_facts.cut_line = last[:LINE_BYTES]
        yield block if not last else Block(block[:end])


def _last_words(line: bytes) -> bytes:
    """Return what is behind the last digit of a line."""
    match = _LAST_WORDS.search(line[-_LAST_BYTES:])
    return b"" if match is None else match[0]


def _begin(
    blocks: Iterator[Block], declared: Format | None, log_facts: Facts
) -> tuple[Format, Iterable[Block]] | None:
    """Return the format, and the blocks from the first that has a record on; None if none has.

    Programs print their configuration before they train: later blocks are not searched for it.
    """
    needed = b""
    for block in blocks:
        log_facts.look(block)
        with_needed = Block(needed + block) if needed else block
        fmt = declared or sniff(with_needed)
        if fmt is not None and any(map(block.__contains__, fmt.anchors)):
            if fmt.by_block is not None:
                fmt = fmt.by_block(fmt, block)
            log_facts.restarts.begin(fmt, block)
            return fmt, itertools.chain([with_needed], blocks)
        if len(needed) < BLOCK_BYTES:
            needed += b"".join(line + b"\n" for line in needed_before(block))
    return None
