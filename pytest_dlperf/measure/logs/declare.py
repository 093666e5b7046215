"""Declare a log format: what its numbers mean, and how one line is read as a record."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeVar

from pytest_dlperf.core.log_pattern import Averaging, Scope

T = TypeVar("T")
#: A rate or a time below or above these is not a measurement.
LEAST: Final = 1e-9
MOST: Final = 1e15
#: A window has so many times the seconds to which its clock is rounded.
_FINER_CLOCK: Final = 5
#: A comma is a mark of thousands, before three digits each. Text with another comma, such as
#: a decimal one, is not a number: what it means is not known.
NUMBER: Final = (
    rb"([+-]?(?:[1-9]\d{0,2}(?:,\d{3}){1,8}|\d{1,25})(?!\d|,\d)"
    rb"(?:\.\d{0,24})?(?:[eE][+-]?\d{1,3})?)"
)
#: Marks of thousands but for the comma: a blank, one that does not break (also in Latin-1), thin
#: and figure spaces, and both apostrophes.
THOUSANDS: Final = rb"(?:[ _'\xa0]|\xc2\xa0|\xe2\x80[\x87\x89\x99\xaf])"
#: What no number has behind it: more of a number, as in ``1.048.576``, ``1_024`` and ``1 048``, or
#: a letter that multiplies it, as in ``6.0k``. A blank may also be between two numbers: it is a
#: mark where one to three digits are before it, and three behind it. A bracket begins the tag of
#: another rank, which goes on with the line.
WHOLE_NUMBER: Final = (
    rb"(?!\d|[.,]\d|(?! )" + THOUSANDS + rb"\d|\[|[kKMGT](?![A-Za-z])"
    rb"|(?:(?<=[^\d.,]\d)|(?<=[^\d.,]\d\d)|(?<=[^\d.,]\d\d\d)) \d\d\d(?!\d))"
)


# Not frozen: such a one takes three times as long to make, for each line that the parser reads.
@dataclass(kw_only=True, slots=True)
class LogRecord:
    """The numbers of one line; None is a number that the line does not have."""

    #: As printed; -1 where the line has none.
    step: int
    epoch: int | None = None
    #: In the format's unit, in its scope.
    rate: float | None = None
    #: Of one iteration; the rate where no rate is printed.
    seconds: float | None = None
    #: Of all iterations since an early one, where ``rate`` is of the printed one alone.
    mean_rate: float | None = None
    #: Of training since it began, by a clock that goes on with it alone.
    elapsed_s: float | None = None
    #: Of one iteration, within ``seconds``.
    data_wait_seconds: float | None = None
    #: Infinite if the printed loss is not a finite number.
    loss: float | None = None
    #: Work of one iteration in the rate's scope, where it varies (tokens).
    work: float | None = None
    #: First step of the window, where the line prints it.
    start: int | None = None
    #: How many steps the run was to have, where the line prints it; a line may say only that.
    total: int | None = None
    #: How many steps a progress bar of one epoch has.
    bar_steps: int | None = None
    #: How many steps an epoch has, where the line prints it.
    epoch_steps: int | None = None
    #: How many epochs, where the line prints it; the last has that number.
    epochs: int | None = None
    #: Work over time of the whole run, by the program's own account.
    whole_run: float | None = None
    #: Seconds of the whole run, by the program's own account.
    whole_seconds: float | None = None
    #: 1 if something other than training begins, and takes its time; 0 if training begins.
    aside: int | None = None
    #: Infinite if the printed norm of the gradients is not a finite number.
    grad_norm: float | None = None
    #: Of one device, as much as the program says it took.
    memory_bytes: float | None = None
    #: TFLOP/s of one device.
    tflops: float | None = None
    #: Model FLOPs utilization, a share: 0.4 is 40 %.
    mfu: float | None = None
    #: Iterations since the last print whose update was skipped, and whose loss or gradients were
    #: not finite; without a step, what a line of words says.
    skipped: float | None = None
    not_finite: float | None = None
    #: Iterations since the run began whose update was skipped.
    skipped_in_all: int | None = None
    #: A number made of the words that say that one update was skipped.
    skip_word: int | None = None
    #: 1 if words say that a loss is lost which has a name of its own, such as that of a part.
    other_loss_lost: int | None = None
    #: 1 if the speed that a user's pattern is to read is there, or on a line before that it does
    #: not find, and is no number of its group.
    unread: int | None = None


#: A number, or a column of them for many lines.
Numbers = Any


class Derived:
    """A parser of records whose fields are made of several numbers of the line."""

    def __init__(
        self,
        numbers: Callable[[bytes], Mapping[str, float | None] | None],
        fields: Callable[[Mapping[str, Numbers]], Mapping[str, Numbers]],
    ) -> None:
        """``numbers`` reads those of a line by name; None if it is not a record.

        ``fields`` makes fields of the record of those that are there. It gets numbers, or a
        column of each for many lines: it calculates, and leaves choices to numpy. A field is NaN
        where there is none, and ``is_record`` is False where the numbers make no record.
        """
        self.numbers = numbers
        self.fields = fields

    def __call__(self, line: bytes) -> LogRecord | None:
        """Return the record of a line, or None if it is not one."""
        # Sessions name formats and mostly read no log; its import takes a tenth of a second
        import numpy as np

        numbers = self.numbers(line)
        if numbers is None:
            return None
        # As in a column: a quotient with 0 is no error
        inputs = {name: np.float64(value) for name, value in numbers.items() if value is not None}
        fields = self.derive(inputs)
        return record_of(fields) if fields.pop("is_record") else None

    def derive(self, inputs: Mapping[str, Numbers]) -> dict[str, Numbers]:
        """Return the fields of one record or of many, and ``is_record`` for each.

        A step that is no count below 1e15 makes no record.
        """
        import numpy as np

        with np.errstate(all="ignore"):
            fields = dict(self.fields(inputs))
            step = fields.get("step", np.float64(0))
            fields["is_record"] = (fields.get("is_record", np.True_) > 0) & (step < MOST)
        return fields


#: The numbers of a line by name; None is one that it does not have.
Event = Mapping[str, float | None]


class InOrder(Derived):
    """A parser of the lines of one log, of which those before say what a line means.

    ``fields`` gets an ``Events`` for each block of the log: a column of every number, NaN where a
    line has none. It keeps what lines say for later blocks, as by ``Latest``.
    """

    def __call__(self, line: bytes) -> LogRecord | None:
        """Return the record of the next line, or None if it is not one."""
        return self.records([line])[0]

    def records(self, lines: Sequence[bytes]) -> list[LogRecord | None]:
        """Return the record of each of the next lines, or None where it is not one."""
        # As in ``Derived``
        import numpy as np

        from pytest_dlperf.measure.logs.events import events_of, records_of

        numbers = {place: self.numbers(line) for place, line in enumerate(lines)}
        events = {place: event for place, event in numbers.items() if event is not None}
        records: list[LogRecord | None] = [None] * len(lines)
        if events:
            fields = self.derive(events_of([*events.values()]))
            rows = np.flatnonzero(fields.pop("is_record"))
            places = np.array([*events])[rows].tolist()
            for place, record in zip(places, records_of(fields, rows), strict=True):
                records[place] = record
        return records


def record_of(fields: Event) -> LogRecord:
    """Return the record that has these fields."""
    values: dict[str, Any] = {
        name: int(value) if name in WHOLE_FIELDS else float(value)
        for name, value in fields.items()
        if value is not None and not math.isnan(value)
    }
    return LogRecord(**values)


@dataclass(frozen=True, kw_only=True, slots=True)
class Format:
    """A log format: the meaning of its rate, and the function that reads a line."""

    name: str
    scope: Scope
    averaging: Averaging
    unit: str
    #: Bytes that every record has; only lines with one of them are parsed.
    anchors: tuple[bytes, ...]
    #: Gets a plain line with an anchor; returns None if it is not a record.
    parse: Callable[[bytes], LogRecord | None]
    #: The framework whose programs alone write it: the logs of a case of another one are refused.
    framework: str | None = None
    #: Set if the words of a line decide whether it is a record and which number is which, at most
    #: with how many digits each number has, and never the digits themselves: then its lines are
    #: read by columns. What digits decide, as a time of 0, is said by ``Derived``.
    by_shape: bool = False
    #: The parser, where it is one, whatever else reads the line as well.
    derived: Derived | None = None
    #: Seconds to which a printed running mean is rounded: windows too short for it are joined.
    resolution: float = 0.0
    #: What the first iteration is called in print.
    first_step: Literal[0, 1] = 0
    #: Step of the epoch at which a running mean restarts.
    running_since: int = 0
    #: Where a line has ``epoch_steps``: the mean runs on into the next epoch, until that step.
    carries_over: bool = False
    #: Seconds to which ``seconds`` are printed, if the printed rate is the last batch over them.
    #: Such a batch may be smaller: the rate is then made from the seconds and the usual batch.
    cost_resolution: float = 0.0
    #: ``epoch``: restarts with each epoch; ``global``: runs on; ``either``: restarted if it does
    #: not grow with a new epoch; ``stalls``: runs on, and may stay the same for iterations that
    #: count.
    counter: Literal["epoch", "global", "either", "stalls"] = "epoch"
    #: False where nobody said whose rate it is, and ``global`` is assumed.
    is_scope_said: bool = True
    #: False where nobody said what a rate is a mean over, and ``window`` is assumed.
    is_averaging_said: bool = True
    #: Set where the rate is a mean that keeps this share of itself at each step, and the time is
    #: that of the printed step.
    rate_keeps: float | None = None
    #: A record is on several lines, the step on the first: see ``joined.py``.
    several_lines: bool = False
    #: ``elapsed_s`` is printed, from which the time of an iteration is made.
    cumulative: bool = False
    #: The clock of a window runs on from one epoch into the next, with what is done between.
    spans_epochs: bool = False
    #: Seconds to which a running mean's whole time is rounded: windows short of five times as
    #: much are joined.
    clock_resolution: float = 0.0
    #: Whose batch size the log's settings have. A path's is that of a device.
    batch_of: Literal["device", "node", "global"] = "device"
    #: Set by a user's pattern: where it reads times alone, the declared batch is the work of an
    #: iteration in its unit. A batch counts samples otherwise, and no tokens.
    batch_is_work: bool = False
    #: A step counts a unit of work, such as a sample, and is no iteration.
    steps_are_work: bool = False
    #: Where the program itself left its warm-up out of what it prints.
    warmup_removed: bool = False
    #: A progress bar: drawn again and again, and another ``total`` is another bar.
    bar: bool = False
    #: Lines that many programs print: looked for where no other format reads any.
    last_resort: bool = False
    #: A line has a step alone: the clock of the lines says how long iterations took.
    by_clock: bool = False
    #: That clock is ``elapsed_s``, and no time stamp: return the seconds to which it was printed
    #: in the lines that were read so far.
    printed_resolution: Callable[[], float] | None = None
    #: The program prints a loss of 0 in place of one that is not a number.
    zero_is_lost: bool = False
    #: Makes the parser of one log, where the meaning of a line is in lines before it. ``parse``
    #: then reads a line by itself. Only an ``InOrder`` is read by columns.
    begin: Callable[[], Callable[[bytes], LogRecord | None]] | None = None
    #: Returns what a block of the log shows of the format: where a user's steps begin, and how
    #: many digits a running mean has.
    by_block: Callable[[Format, bytes], Format] | None = None
    #: Bytes of those lines; they are no records.
    context_anchors: tuple[bytes, ...] = ()
    #: The parser of one log, where it is one, whatever else reads the line as well.
    in_order: InOrder | None = None
    #: What its times leave out, in words, though an iteration has it.
    leaves_out: str = ""
    #: Why the prints of a log may have no time, in words, where the format knows it.
    no_time: str = ""
    #: Return whether the name of a speed that was read so far says that it is a mean.
    names_mean: Callable[[], bool] | None = None
    #: Return the step of a last line whose speed is no number of a user's pattern.
    unread_at_end: Callable[[], int | None] | None = None
    #: Return, of the lines that were read so far, why the first of them has no number, and a rate
    #: that is said to be of one device; empty where none is.
    no_number: Callable[[], str] | None = None
    rate_of_device: Callable[[], str] | None = None
    #: Return the work of an iteration by what the lines print beside the rates that were read so
    #: far, in their scope; None where they print no time of one.
    work_of_lines: Callable[[], float | None] | None = None
    #: Return the share of itself by which a speed is rounded, of those that were read so far.
    rounding: Callable[[], float] | None = None

    @property
    def tick_s(self) -> float:
        """Seconds to which a running mean's whole time is rounded; a bar shows whole ones."""
        return 1.0 if self.bar else self.clock_resolution

    @property
    def rounded_share(self) -> float:
        """Share of itself by which a printed speed is rounded at most; 0 where it is not known."""
        return 0.0 if self.rounding is None else self.rounding()

    @property
    def least_seconds(self) -> float:
        """Windows of a running mean that are shorter than this are joined with the next."""
        return max(0.0, _FINER_CLOCK * self.tick_s - 1e-6)

    def for_log(self) -> Format:
        """Return the format with the parser of one log."""
        if self.begin is None:
            return self
        parse = self.begin()
        in_order = parse if isinstance(parse, InOrder) else None
        return replace(
            self,
            parse=parse,
            anchors=self.anchors + self.context_anchors,
            begin=None,
            by_shape=self.by_shape and in_order is not None,
            in_order=in_order,
        )


def finite(value: Any) -> float | None:
    """Return a number of a JSON object, or None if it is not a finite number below 1e300."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e300 else None


def json_loss(value: Any) -> float | None:
    """Return a loss of a JSON object: infinite for the NaN and Infinity of Python's JSON."""
    is_lost = isinstance(value, float) and not math.isfinite(value)
    return math.inf if is_lost else finite(value)


def json_object(text: bytes) -> dict[str, Any] | None:
    """Return the JSON object of a text, or None if it is not one."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def json_count(value: Any) -> float | None:
    """Return a number of a JSON object from 0 to below 1e15, or None if it is not one."""
    number = finite(value)
    return number if number is not None and 0 <= number < MOST else None


#: How a loss that is not a finite number is printed.
NOT_FINITE: Final = rb"[+-]?(?:[nN][aA][nN]|[iI][nN][fF](?:inity)?)\b"


def measured(value: float | None) -> float | None:
    """Return a rate or a time; None if it is absent or not a possible measurement."""
    return value if value is not None and LEAST < value < MOST else None


def waited(value: float | None) -> float | None:
    """Return a time of waiting, which may be 0; None if it is absent or not possible."""
    return value if value is not None and 0 <= value < MOST else None


class Field:
    """A labelled number; a search for it takes time in proportion to the line."""

    __slots__ = ("_per", "_search", "pattern")

    def __init__(self, before: bytes, after: bytes = b"", *, per: float = 1) -> None:
        """``before`` and ``after`` are patterns without open repetition.

        So many (``per``) of the printed unit make one of the record's: 100 where percents are a
        share, 2**-30 where GiB are bytes.
        """
        self.pattern = re.compile(before + NUMBER + (after or WHOLE_NUMBER))
        self._search = self.pattern.search
        self._per = per

    def __call__(self, line: bytes) -> float | None:
        """Return the number, or None where it is absent or not finite."""
        match = self._search(line)
        if match is None:
            return None
        value = float(match[1].replace(b",", b"")) / self._per
        return value if math.isfinite(value) else None

    def whole(self, line: bytes) -> int | None:
        """Return the number as a count, or None if it is absent or not a count."""
        value = self(line)
        return None if value is None or not 0 <= value < 1e15 else int(value)


class Loss(Field):
    """A labelled loss, or a norm of gradients: infinite if the printed one is not finite."""

    __slots__ = ()

    def __init__(self, before: bytes, after: bytes = b"") -> None:
        super().__init__(before, after)
        self.pattern = re.compile(before + b"(?:" + NUMBER + b"|" + NOT_FINITE + b")" + after)
        self._search = self.pattern.search

    def __call__(self, line: bytes) -> float | None:
        """Return the loss, or None where it is absent."""
        match = self._search(line)
        if match is None:
            return None
        return math.inf if match[1] is None else float(match[1].replace(b",", b""))


class Inverse(Field):
    """A labelled number of which a record has the inverse."""

    __slots__ = ()

    def __call__(self, line: bytes) -> float | None:
        """Return one over the number; None where it is absent or 0."""
        value = super().__call__(line)
        return 1 / value if value and math.isfinite(1 / value) else None


class Either(Field):
    """The first of several fields that a line has."""

    __slots__ = ("_fields",)

    def __init__(self, *fields: Field) -> None:
        self._fields = fields

    def __call__(self, line: bytes) -> float | None:
        """Return the number, or None where the line has none of the fields."""
        numbers = (field(line) for field in self._fields)
        return next((number for number in numbers if number is not None), None)


#: Fields of a record that are whole numbers.
WHOLE_FIELDS: Final = frozenset(
    {
        "step",
        "epoch",
        "start",
        "total",
        "epochs",
        "epoch_steps",
        "bar_steps",
        "aside",
        "skipped_in_all",
        "skip_word",
        "other_loss_lost",
        "unread",
    }
)
#: Fields of a record that say more of a training than its speed; ``spans.Figures`` has them.
FIGURES: Final = ("memory_bytes", "tflops", "mfu", "grad_norm")
#: ``per`` of a ``Field`` whose number is in MiB, or in GiB, for a record in bytes.
MIB: Final = 2.0**-20
GIB: Final = 2.0**-30
Step = Field | re.Pattern[bytes]


def parser(
    *steps: Step,
    required: Collection[str] = (),
    excluded: Collection[bytes] = (),
    alone: Collection[str] = (),
    **fields: Field,
) -> Callable[[bytes], LogRecord | None]:
    """Return the parser of lines with labelled numbers, which is all that most formats need.

    The step is that of the first of ``steps`` that matches: a field, or a pattern whose groups
    are whole-number fields of the record. A line is not a record if none matches, if it matches
    again further on, as where two writers wrote one line, if it lacks a ``required`` field, or if
    it has an ``excluded`` word. A line that has one of the fields
    ``alone`` needs no step: the record's step is -1 then.
    """
    step_readers = [_step_reader(step) for step in steps]
    readers = [
        (name, field.whole if name in WHOLE_FIELDS else field) for name, field in fields.items()
    ]

    # Written out, since a log of tagged ranks is read line by line.
    def parse(line: bytes) -> LogRecord | None:
        for word in excluded:
            if word in line:
                return None
        for read_step in step_readers:
            values: dict[str, Any] | None = read_step(line)
            if values is not None:
                break
        else:
            values = {"step": -1}
        needs = required if values["step"] >= 0 else ()
        for name, read in readers:
            value = values[name] = read(line)
            if value is None and name in needs:
                return None
        if values["step"] < 0 and not any(values[name] is not None for name in alone):
            return None
        return LogRecord(**values)

    return parse


def _step_reader(step: Step) -> Callable[[bytes], dict[str, Any] | None]:
    if isinstance(step, Field):
        comes_again = _search_again(step.pattern)

        def read_field(line: bytes) -> dict[str, Any] | None:
            value = step.whole(line)
            return None if value is None or comes_again(line) else {"step": value}

        return read_field

    comes_again = _search_again(step)
    names = tuple(step.groupindex)

    def read_groups(line: bytes) -> dict[str, Any] | None:
        match = step.search(line)
        if match is None or comes_again(line):
            return None
        return dict(zip(names, map(int, match.groups()), strict=True))

    return read_groups


def _search_again(step: re.Pattern[bytes]) -> Callable[[bytes], bool]:
    """Return what says whether the step of a line comes twice, be it within a word.

    A second writer's line begins where the first one's was cut: ``tps: 1step:``.
    """
    text = re.sub(rb"\\b(?=[A-Za-z(])", b"", step.pattern)
    within_words = re.compile(text, step.flags).search

    def comes_again(line: bytes) -> bool:
        match = within_words(line)
        return match is not None and within_words(line, match.end()) is not None

    return comes_again


#: What launchers put before a line: srun's ``3: ``, kubectl's ``[pod/name/container] ``, Ray's
#: ``(Worker pid=9, ip=10.0.0.1) ``, Docker Compose's ``service-1  | ``.
_LAUNCHER: Final = re.compile(
    rb"^(?:\d{1,6}: ?|\[pod/[^\]\n]{1,200}\] ?"
    rb"|\([A-Za-z_][\w.]{0,80} pid=\d{1,10}(?:, ip=[\da-fA-F.:]{1,45})?\) ?"
    rb"|[A-Za-z0-9][\w.-]{0,80}-\d{1,4} {1,40}\| )"
)


def behind_launcher(read: Callable[[bytes], T]) -> Callable[[bytes], T]:
    """Return a reader that sees lines without what a launcher put before them.

    For formats whose lines are known by how they begin. A user's pattern sees lines as they are.
    """

    def read_rest(line: bytes) -> T:
        return read(_LAUNCHER.sub(b"", line, count=1))

    return read_rest


def built_in(*of_module: Format) -> Mapping[str, Format]:
    """Return the built-in formats of a module by name; their lines are read by columns."""
    return {
        fmt.name: replace(
            fmt, by_shape=True, derived=fmt.parse if isinstance(fmt.parse, Derived) else None
        )
        for fmt in of_module
    }
