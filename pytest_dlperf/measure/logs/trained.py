"""Find the iterations of a log that trained nothing: skipped updates, lost losses and gradients.

Without an update an iteration is faster, so a training that has failed looks like a good one. In
half precision loss scaling skips an update now and then: ``problems`` has the limit.
"""

from __future__ import annotations

import math
import re
import zlib
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from pytest_dlperf.measure.logs.declare import Format, LogRecord

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_dlperf.measure.logs.records import Columns

    Floats = NDArray[np.float64]

#: Beyond this number stretches are joined two by two, so that memory is bounded for any log.
_MOST_STRETCHES: Final = 1 << 14
#: Bytes of which every line below has some; ``nan`` finds lines of losses.
WORDS: Final = (
    b"verflow",
    b"OVERFLOW",
    b"nan",
    b"NaN",
    b"on-finite",
    b"kipp",
    b"optimizer not run",
    b", skipped=",
)
#: Of lines of skipped updates.
_OF_SKIPS: Final = (b"verflow", b"OVERFLOW", b"on-f", b"not run", b"kipp")
#: Why an update is skipped, and that it is.
_REASON: Final = rb"(?:overflow|\bnans?\b|\binf(?:inite|inity)?\b|(?:non|not)[- ]?finite)"
_SKIPPED: Final = (
    rb"(?:\b(?<!of )(?:(?<!\b0 )|(?<=rank 0 ))(?<!\bno )"
    rb"(?:skip|ignor)[a-z]{0,5} (?:this |the |current ){0,2}"
    rb"(?:step|update|updating|batch|iter|backward|grad|optim)"
    # A count or a setting, which says of none
    rb"(?![a-z]{0,12}['\"]?\s{0,4}[:=]\s{0,4}(?:0(?![.\d])|(?:off|disabled|none|no|false)\b))"
    rb"|\b(?:step|update|batch|iteration) (?:\d{1,15} )?(?:is |was )?skipped)"
)
#: One line for each skipped update, in words of many programs: DeepSpeed's "OVERFLOW! Rank 0
#: Skipping step" and "Overflow detected. Skipping step" (``runtime/fp16``), apex's "Gradient
#: overflow.  Skipping step", fairseq's "gradient overflow detected, ignoring gradient", ESPnet's
#: "The grad norm is nan. Skipping updating the model"; or the reason comes last.
_SKIP: Final = re.compile(
    rb"(?i)%(reason)b[^\n]{0,60}?%(skipped)b[^\n]{0,160}"
    rb"|%(skipped)b[^\n]{0,60}?%(reason)b[^\n]{0,160}"
    # fairseq's ``amp``, PaddlePaddle's ``amp/grad_scaler.py``, PaddleNLP's Trainer
    rb"|(?:overflow detected, setting scale|found inf or nan, current scale is"
    rb"|optimizer not run, scale)[^\n]{0,160}" % {b"reason": _REASON, b"skipped": _SKIPPED}
)
#: DeepSpeed names the rank in it, and every rank may print it.
_RANK: Final = re.compile(rb"Rank \d{1,6} ")
#: DeepSpeed's ``_report_progress``: updates skipped since the run began.
_SKIPPED_IN_ALL: Final = re.compile(rb"\bstep=\d{1,15}, skipped=(\d{1,15}), lr=")
#: A loss of training that is not a number, in the program's own words.
_LOST_LOSS: Final = re.compile(
    rb"[Ll]oss['\"]?\s{0,4}(?:[:=]|is)?\s{0,4}['\"]?(?:tensor\()?[+-]?(?:nan|NaN)\b"
)
#: What precedes the word of a loss with a name of its own: ``aux_loss``, ``kl loss``.
_OTHER_LOSS: Final = re.compile(
    rb"(?i)(?<![a-z])(?:[\w.]{0,64}[_/](?<!train_)(?<!training_)(?<!total_)(?<!lm_)(?<!train/)"
    rb"(?<!training/)(?<!mean_)(?<!avg_)(?<!average_)(?<!step_)(?<!batch_)(?<!iter_)"
    rb"(?<!model_)(?<!running_)(?<!global_)(?<!current_)(?<!last_)"
    rb"|(?:aux(?:iliary)?|reg(?:ulari[sz]ation)?|kl|(?:load[ -])?balanc(?:e|ing)|router|z)[ -])$"
)
_NOT_OF_TRAINING: Final = re.compile(
    rb"(?i)(?<![a-z])(?:val(?:id(?:ation)?)?|eval(?:uation)?|test(?:ing)?|dev)(?![a-z])"
)
_NAME_LENGTH: Final = 64


def with_words(fmt: Format) -> Format:
    """Return the format that also reads lines by which programs say that a step trained nothing.

    A record of such a line has no step, unless a step is printed before the words.
    """

    def parse(line: bytes) -> LogRecord | None:
        return with_words_of(line, fmt.parse(line), is_bar=fmt.bar)

    every_line = b"\n" in fmt.anchors
    return replace(fmt, parse=parse, anchors=fmt.anchors if every_line else fmt.anchors + WORDS)


def with_words_of(line: bytes, record: LogRecord | None, *, is_bar: bool) -> LogRecord | None:
    """Return the record of a line, or None, with what its words say of a step."""
    if b"nan" in line or b"NaN" in line:
        # A line of numbers has other signs.
        if record is None or is_bar:
            record = _with_skip(line, record)
        if record is None or record.loss is None:
            record = _with_lost_loss(line, record)
    elif any(word in line for word in _OF_SKIPS):
        record = _with_skip(line, record)
    if record is None and b", skipped=" in line and (match := _SKIPPED_IN_ALL.search(line)):
        return LogRecord(step=-1, skipped_in_all=int(match[1]))
    return record


def _with_skip(line: bytes, record: LogRecord | None) -> LogRecord | None:
    match = _SKIP.search(line)
    if match is None:
        return record
    word = zlib.crc32(_RANK.sub(b"", match[0]))
    return replace(record or LogRecord(step=-1), skip_word=word)


def _with_lost_loss(line: bytes, record: LogRecord | None) -> LogRecord | None:
    losses = list(_LOST_LOSS.finditer(line))
    if not losses or _NOT_OF_TRAINING.search(line):
        return record
    if record is None or record.step < 0:
        begins = (line[max(0, match.start() - _NAME_LENGTH) : match.start()] for match in losses)
        if all(_OTHER_LOSS.search(begin) for begin in begins):
            return replace(record or LogRecord(step=-1), other_loss_lost=1)
        return replace(record or LogRecord(step=-1), not_finite=1)
    # As gradients: a later line of the format may have no loss to show that it came back.
    return replace(record, grad_norm=math.inf)


class Stretches:
    """Stretches of iterations, and how many of each trained nothing by one kind of line."""

    def __init__(self) -> None:
        #: First and last iteration, how many of them, and in how many prints.
        self._rows: list[tuple[int, int, float, float]] = []

    def add(self, first: int, last: int, count: float, prints: float = 1.0) -> None:
        """Take in a stretch, which begins after those before; its count is at most its length."""
        if self._rows:
            first = max(first, self._rows[-1][1] + 1)
        length = last - first + 1
        if length < 1:
            return
        count = min(count, length)
        if self._rows:
            a, b, counted, printed = self._rows[-1]
            if b + 1 == first and counted == b - a + 1 and count == length:
                self._rows[-1] = (a, last, counted + count, printed + prints)
                return
        self._rows.append((first, last, count, prints))
        if len(self._rows) > _MOST_STRETCHES:
            self._rows = [_joined(*self._rows[i : i + 2]) for i in range(0, len(self._rows), 2)]

    @property
    def last(self) -> int:
        """The last iteration of them; 0 where there is none."""
        return self._rows[-1][1] if self._rows else 0

    def begin_at(self, last: int) -> None:
        """Take what there is for iterations 1 to ``last``, which were counted otherwise before."""
        count, prints = (sum(row[i] for row in self._rows) for i in (2, 3))
        self._rows = [(1, last, min(count, last), prints)] if self._rows else []

    def within(self, first: float, last: float) -> tuple[float, float]:
        """Return how many iterations of a window trained nothing, and in how many prints."""
        count = prints = 0.0
        for a, b, counted, printed in self._rows:
            share = max(0.0, min(b, last) - max(a, first) + 1) / (b - a + 1)
            count += share * counted
            prints += share * printed
        return count, prints


def _joined(
    stretch: tuple[int, int, float, float], *following: tuple[int, int, float, float]
) -> tuple[int, int, float, float]:
    """Return two stretches as one, or the last one alone as it is."""
    first, last, count, prints = stretch
    for _, end, counted, printed in following:
        last, count, prints = end, count + counted, prints + printed
    return first, last, count, prints


@dataclass(frozen=True, kw_only=True, slots=True)
class Account:
    """What a log says of the iterations that were measured."""

    iterations: int
    #: Of them, those whose update was skipped, and those whose loss or gradients were lost.
    skipped: float
    not_finite: float
    #: Of them, those whose loss is 0 and came to it at once, or had no gradient from the begin.
    zero: float = 0.0
    #: The last iteration before them that has a loss, if prints had one and these have none.
    loss_until: int | None

    @property
    def lost(self) -> float:
        """How many trained nothing; a skipped update and its gradients are one iteration."""
        return max(self.skipped, self.not_finite, self.zero)


#: Prints whose loss or gradients are lost count as one iteration each if they are no more than
#: this share: a print has one such iteration for all of its window, in its mean.
_FEW: Final = 0.10
#: A window this many times longer than any stretch without a loss has to show one.
_LONGER: Final = 2
#: Words that come after up to so many times the iterations of the last time are regular.
_REGULAR: Final = 1.5
#: A progress bar and the losses beside it are printed apart: so many losses show how often.
_LOSSES_OF_BAR: Final = 3


class Untrained:
    """What the lines of a log say so far of iterations that trained nothing.

    Several kinds of line may tell of one iteration, so each kind is counted by itself.
    """

    def __init__(self, fmt: Format) -> None:
        self._format = fmt
        self._printed_skips, self._word_skips, self._counted_skips = (
            Stretches(),
            Stretches(),
            Stretches(),
        )
        self._printed_lost, self._losses = Stretches(), Stretches()
        #: Losses of exactly 0 that no training comes to.
        self._zeros = Stretches()
        #: Words since the last print, and those of the print before.
        self._words: Counter[int] = Counter()
        self._words_before: set[int] = set()
        #: The counter of skipped updates before the last print, and since then: the largest, as
        #: programs with several models print one for each.
        self._in_all: int | None = None
        self._in_all_at = 0
        self._new_in_all: int | None = None
        #: Words of a lost loss: since the last print, at which iteration the latest came, and how
        #: many iterations after the one before.
        self._lost_word = self._other_lost_word = False
        self._lost_word_at: int | None = None
        self._lost_word_gap = 0
        #: Losses so far, the last iteration that has one, and the longest stretch between two.
        self._loss_count = 0
        self._loss_at = 0
        self._loss_gap = 0
        self._last_loss = math.nan
        self._last_loss_at = 0
        self._is_at_zero = False
        self._sampled_at = 0
        self._step: int | None = None

    @property
    def has_words(self) -> bool:
        """Whether words since the last print wait for the next one."""
        lost = self._lost_word or self._other_lost_word
        return bool(self._words or self._new_in_all is not None or lost)

    def hear(self, record: LogRecord) -> None:
        """Take in words between two prints."""
        if record.skip_word is not None:
            self._words[record.skip_word] += 1
        if record.skipped_in_all is not None:
            self._new_in_all = max(record.skipped_in_all, self._new_in_all or 0)
        if record.step < 0 and record.not_finite:
            self._lost_word = True
        if record.other_loss_lost:
            self._other_lost_word = True

    def begin_at(self, last: int) -> None:
        """Count from the first print of a resumed run, whose last iteration is ``last``."""
        for stretches in (
            self._printed_skips,
            self._word_skips,
            self._counted_skips,
            self._printed_lost,
            self._losses,
            self._zeros,
        ):
            stretches.begin_at(last)
        if self._lost_word_at is not None:
            self._lost_word_at = last
        if self._loss_count:
            self._loss_at = self._loss_gap = last
        self._in_all_at, self._sampled_at = min(self._in_all_at, last), last

    def take(self, record: LogRecord, first: int, last: int) -> None:
        """Take in the print of iterations ``first`` to ``last``, and the words before it."""
        own_loss = self._last_loss if self._format.bar else record.loss
        if self._other_lost_word and (own_loss is None or not math.isfinite(own_loss)):
            self._lost_word = True  # nothing shows that the training's own loss is there
        self._other_lost_word = False
        explained = self._take_words(first, last)
        if self._format.counter == "stalls" and record.step == self._step:
            self._printed_skips.add(last, last, 1)
        self._step = record.step
        if record.skipped:
            self._printed_skips.add(first, last, record.skipped)
            explained = True
        if record.not_finite:
            self._printed_lost.add(first, last, record.not_finite)
            explained = True
        if self._format.bar:
            self.sample(record, last)
            return
        if record.loss is not None:
            self._note_loss(last)
            self._note_zero(record.loss, record.grad_norm, first, last)
        if _is_lost(record.loss) or (_is_lost(record.grad_norm) and not explained):
            self._losses.add(first, last, last - first + 1)

    def sample(self, record: LogRecord, last: int) -> None:
        """Take in a loss that is printed beside a progress bar, for all since the one before."""
        self._sample(record.loss, record.grad_norm, last)

    def _sample(self, loss: float | None, norm: float | None, last: int) -> None:
        if loss is None and norm is None:
            return
        if _is_lost(loss) or _is_lost(norm) or self._is_zero(loss, norm):
            self._losses.add(self._sampled_at + 1, last, last - self._sampled_at)
        if loss is not None:
            self._note_loss(last)
            self._note_zero(loss, norm, self._sampled_at + 1, last)
        self._sampled_at = last

    def take_samples(self, losses: Floats, norms: Floats, last: Floats) -> None:
        """Take in many of them, each at its last iteration."""
        places = np.flatnonzero(~(np.isnan(losses) & np.isnan(norms)))
        losses, norms, last = losses[places], norms[places], last[places]
        if (np.isinf(losses) | np.isinf(norms) | (losses == 0)).any():
            for loss, norm, end in zip(
                *map(_numbers, (losses, norms)), last.tolist(), strict=True
            ):
                self._sample(loss, norm, int(end))
        elif len(places):
            has_loss = ~np.isnan(losses)
            self._note_losses(last[has_loss])
            if has_loss.any():
                self._last_loss = float(losses[has_loss][-1])
                self._last_loss_at, self._is_at_zero = self._loss_at, False
            self._sampled_at = int(last[-1])

    def take_columns(self, columns: Columns, first: Floats, last: Floats) -> None:
        """Take in many prints at once, with no words between them."""
        steps, losses, norms = columns["step"], columns["loss"], columns["grad_norm"]
        if self._format.counter == "stalls":
            before = -1 if self._step is None else self._step
            for stalled in last[np.diff(steps, prepend=before) == 0].tolist():
                self._printed_skips.add(int(stalled), int(stalled), 1)
        self._step = int(steps[-1])
        explained = np.zeros(len(last), dtype=bool)
        for name, stretches in (
            ("skipped", self._printed_skips),
            ("not_finite", self._printed_lost),
        ):
            if name in columns:
                explained |= columns[name] > 0
                for row in np.flatnonzero(columns[name] > 0):
                    stretches.add(int(first[row]), int(last[row]), float(columns[name][row]))
        if self._format.bar:
            return
        for row in np.flatnonzero(np.isinf(losses) | (np.isinf(norms) & ~explained)):
            self._losses.add(int(first[row]), int(last[row]), float(last[row] - first[row] + 1))
        printed = np.flatnonzero(~np.isnan(losses))
        for row in printed if (losses == 0).any() else printed[-1:]:
            norm = None if np.isnan(norms[row]) else float(norms[row])
            self._note_zero(float(losses[row]), norm, int(first[row]), int(last[row]))
        self._note_losses(last[~np.isnan(losses)])

    def _note_losses(self, ends: Floats) -> None:
        if len(ends):
            gaps = np.diff(ends, prepend=self._loss_at)
            self._loss_gap = max(self._loss_gap, int(gaps.max()))
            self._loss_count += len(ends)
            self._loss_at = int(ends[-1])

    def _note_zero(self, loss: float, norm: float | None, first: int, last: int) -> None:
        """Take in whether a loss is 0 without a gradient, or at once after a large one.

        One that is learnt by heart comes to 0 by and by, or between two prints far apart. One
        of rewards is 0 with a gradient, and also where all rewards are alike, without one.
        """
        if loss != 0:
            self._last_loss, self._last_loss_at, self._is_at_zero = loss, last, False
            return
        if norm and math.isfinite(norm):
            self._last_loss = loss
        if not self._is_at_zero:
            is_large = math.isfinite(self._last_loss) and abs(self._last_loss) > _LARGE
            self._is_at_zero = is_large and last - self._last_loss_at <= _SOON
        fell = math.isnan(self._last_loss) or abs(self._last_loss) > _SMALL
        if (norm == 0 and fell) or (norm is None and self._is_at_zero):
            self._zeros.add(first, last, last - first + 1)

    def account(self, first: float, last: float) -> Account:
        """Return what is known of the iterations ``first`` to ``last``."""
        iterations = int(last - first) + 1
        skips = (self._printed_skips, self._word_skips, self._counted_skips)
        covered, prints = self._losses.within(first, last)
        is_single = prints <= 1 and covered <= iterations / 2
        lost = prints if is_single or covered <= _FEW * iterations else covered
        enough = self._loss_count >= (_LOSSES_OF_BAR if self._format.bar else 1)
        vanished = enough and self._loss_at < first and iterations >= _LONGER * self._loss_gap
        # Losses beside a bar end before it does.
        zero_until = min(last, self._loss_at)
        zero = self._zeros.within(first, zero_until)[0]
        is_all = 0 < zero_until - first + 1 <= zero or self._is_never_above_zero(last)
        return Account(
            iterations=iterations,
            skipped=max(stretches.within(first, last)[0] for stretches in skips),
            not_finite=max(self._printed_lost.within(first, last)[0], min(lost, covered)),
            zero=float(iterations) if is_all else zero,
            loss_until=self._loss_at if vanished else None,
        )

    def _is_never_above_zero(self, last: float) -> bool:
        """Return whether lines of steps have a loss that is 0 from the first to the last.

        One of rewards is such a loss where its gradients are not 0: then it is taken as one.
        """
        is_always = self._loss_count > 0 and math.isnan(self._last_loss)
        return is_always and not self._format.bar and self._loss_at >= last - self._loss_gap

    def _take_words(self, first: int, last: int) -> bool:
        """Give words to the print after them; return whether they tell of a skipped update."""
        explained = bool(self._words)
        if self._words:
            # Ranks print one skip in the same words. A scale that does not move any more makes
            # those of several skips the same.
            is_stuck = not self._words_before.isdisjoint(self._words)
            count = self._words.total() if is_stuck else len(self._words)
            self._word_skips.add(first, last, count)
        self._words_before = set(self._words)
        self._words.clear()
        if self._new_in_all is not None:
            if self._in_all is not None and self._new_in_all > self._in_all:
                self._counted_skips.add(self._in_all_at + 1, last, self._new_in_all - self._in_all)
                explained = True
            self._in_all, self._in_all_at, self._new_in_all = self._new_in_all, last, None
        if self._lost_word:
            gap = last - (last if self._lost_word_at is None else self._lost_word_at)
            # Regular words, if less frequent than prints, are each of all since the one before.
            regular = 0 < gap <= _REGULAR * self._lost_word_gap
            begin = last - gap + 1 if regular else first
            self._losses.add(begin, last, last - begin + 1)
            self._lost_word, self._lost_word_at, self._lost_word_gap = False, last, gap
        return explained

    def _note_loss(self, last: int) -> None:
        self._loss_gap = max(self._loss_gap, last - self._loss_at)
        self._loss_count += 1
        self._loss_at = last

    def _is_zero(self, loss: float | None, norm: float | None) -> bool:
        """Return whether a loss of 0 stands for one that was lost.

        A model that learns its data by heart comes to 0 by and by.
        """
        if not self._format.zero_is_lost or loss != 0 or norm is not None:
            return False
        return math.isnan(self._last_loss) or abs(self._last_loss) > _NEAR_ZERO


#: A loss that was printed as small as this may become 0 by training.
_NEAR_ZERO: Final = 0.01
#: One that was larger is not learnt by heart where the gradients are 0 as well.
_SMALL: Final = 0.1
#: A larger one does not become 0 within so many iterations.
_LARGE: Final = 1.0
_SOON: Final = 10


def _is_lost(value: float | None) -> bool:
    return value is not None and not math.isfinite(value)


def _numbers(column: Floats) -> list[float | None]:
    return [None if math.isnan(value) else value for value in column.tolist()]
