"""The chart of a case over commits: every outcome, what it was judged by, and what changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pytest_dlperf.core.command_results import Acknowledged, Change, Point
from pytest_dlperf.core.measurement import short_commit
from pytest_dlperf.report import figures
from pytest_dlperf.report.history_text import commits_of
from pytest_dlperf.report.page.chart import END, START, Axis, Chart, Layer, Mark, places
from pytest_dlperf.report.page.level import Stretch, joined_stretches, level_layers
from pytest_dlperf.report.page.markup import Html, name, text
from pytest_dlperf.report.page.shown_series import ShownSeries
from pytest_dlperf.report.page.svg import Drawn
from pytest_dlperf.report.page.table import Column, TableCell, TableRow, cell, number, table
from pytest_dlperf.report.page.verdicts import look_of, urgency

_HEIGHT: Final = 240
_WIDTH: Final = 960
#: Of a longer series the newest outcomes are drawn, where nothing else is said: more would be
#: less than two pixels apart.
POINTS_MAX: Final = 400
#: So many have their runs, interval and level: each is read from its whole outcome.
JUDGED_MAX: Final = 200
#: Characters of a flag's label, and of the sentence that a mark shows.
_LABEL: Final = 30
_SENTENCE: Final = 200
_COLUMNS: Final = (
    Column(heading="time"),
    Column(heading="commit"),
    Column(heading="rate", kind="number"),
    Column(heading="level", kind="number"),
    Column(heading="change", kind="number"),
    Column(heading="verdict"),
    Column(heading="remarks"),
)
_PASSED: Final = 3


def series_chart(shown: ShownSeries, *, points_max: int = POINTS_MAX) -> Drawn | None:
    """Return the chart of a series; None where nothing was measured.

    Of more than ``points_max`` outcomes the newest are drawn.
    """
    points = shown.series.points[-points_max:]
    if all(point.throughput is None for point in points):
        return None
    return Drawn(
        chart=_chart(shown, points),
        caption=_caption(shown, points),
        numbers=_numbers(shown, points),
    )


def remarks(point: Point) -> str:
    """Return what is odd or new about an outcome, in words."""
    notes = [point.cause] if point.cause else []
    notes += [point.left_out] if point.left_out else []
    notes += [f"against {point.against}"] if point.against else []
    notes += [point.confirmed] if point.confirmed else []
    return "; ".join([*notes, *point.software_changes])


def _chart(shown: ShownSeries, points: Sequence[Point]) -> Chart:
    series = shown.series
    place_of = {point.number: place for place, point in enumerate(points)}
    # Between the last outcome of the one level and the first of the other
    drawn = [
        (place_of[change.number] - 0.5, change)
        for change in shown.changes
        if change.number in place_of
    ]
    stretches = joined_stretches(_stored_levels(shown, points))
    layers = level_layers(stretches, level_name="stored level", band_name="tolerated")
    if shown.changes:
        levels = tuple(_levels(points, shown.changes, drawn))
        layers.append(
            Layer(shape="rule", style="found", marks=levels, name="mean between changes")
        )
    layers += _flags(shown, points, drawn)
    layers += _runs(shown, points)
    layers += _medians(shown, points)
    low, high = _span(points, stretches)
    return Chart(
        description=f"Throughput of {series.case_id} by commit, in order of time",
        x=places(_commits(points), "commit, in order of time"),
        y=Axis(title=f"{series.unit}/s", low=low, high=high),
        layers=tuple(layers),
        height=_HEIGHT,
        width=_WIDTH,
    )


def _stored_levels(shown: ShownSeries, points: Sequence[Point]) -> Iterator[Stretch]:
    for place, point in enumerate(points):
        judged = shown.judged.get(point.number)
        if judged is not None and judged.level is not None:
            yield Stretch(place - 0.5, place + 0.5, judged.level, judged.tolerance)


def _flags(
    shown: ShownSeries, points: Sequence[Point], drawn: Sequence[tuple[float, Change]]
) -> Iterator[Layer]:
    """Yield the upright lines: changes that were found, and levels that somebody accepted."""
    flags: dict[tuple[str, str], list[Mark]] = {}
    for place, change in drawn:
        commit = short_commit(change.first_after.commit)
        label = f"{commit} {figures.percent(change.change)}".strip()
        kind = ("bad", "slower level") if change.change < 0 else ("better", "faster level")
        flag = Mark(place, START, y2=END, hover=_change_words(change), label=label)
        flags.setdefault(kind, []).append(flag)
    for level in shown.acknowledged:
        if (there := _place_of_time(level.time, points)) is not None:
            words, label = _accepted_words(level), _accepted_label(level)
            flag = Mark(there, START, y2=END, hover=words, label=label)
            flags.setdefault(("accepted", "level accepted"), []).append(flag)
    for (style, what), marks in flags.items():
        yield Layer(shape="flag", style=style, marks=tuple(marks), name=what)


def _place_of_time(time: str, points: Sequence[Point]) -> float | None:
    """Return where ``time`` is among the points; None before the first."""
    if time < points[0].time:
        return None
    later = (place for place, point in enumerate(points) if point.time >= time)
    return next(later, len(points)) - 0.5


def _runs(shown: ShownSeries, points: Sequence[Point]) -> Iterator[Layer]:
    """Yield the intervals and the runs of the outcomes that count."""
    whiskers, specks = [], []
    for place, point in enumerate(points):
        judged = shown.judged.get(point.number)
        if judged is None or point.left_out:
            continue
        specks += [Mark(place, rate) for rate in judged.runs]
        if judged.level is not None and judged.interval is not None:
            low, high = (judged.level * (1 + share) for share in judged.interval)
            whiskers.append(Mark(place, low, y2=high))
    if whiskers:
        yield Layer(shape="whisker", style="other", marks=tuple(whiskers), name="90 % interval")
    if specks:
        yield Layer(shape="speck", style="baseline", marks=tuple(specks), name="run")


def _medians(shown: ShownSeries, points: Sequence[Point]) -> Iterator[Layer]:
    """Yield the outcomes by their verdicts: hollow where they do not count, urgent ones on top."""
    kinds: dict[tuple[bool, str], list[Mark]] = {}
    for place, point in enumerate(points):
        # Of an outcome that was not measured, at the lower edge
        rate = START if point.throughput is None else point.throughput
        mark = Mark(
            place, rate, hover=_hover(shown, point), link=shown.links.get(point.number, "")
        )
        is_left_out = bool(point.left_out) and point.throughput is not None
        kinds.setdefault((is_left_out, point.verdict), []).append(mark)
    order = sorted(kinds, key=lambda kind: (not kind[0], -urgency(kind[1]), kind[1]))
    for is_left_out, verdict in order:
        look = look_of(verdict)
        yield Layer(
            shape=look.shape,
            style=f"{look.style} aside" if is_left_out else look.style,
            marks=tuple(kinds[is_left_out, verdict]),
            name="not used for levels" if is_left_out else verdict,
        )


def _span(
    points: Sequence[Point], stretches: Sequence[Stretch]
) -> tuple[float | None, float | None]:
    """Return an axis for the points that count: a disturbed one may be far off."""
    rates = [point.throughput for point in points if point.throughput and not point.left_out]
    if not rates:
        return None, None
    for _, _, level, tolerance in stretches:
        rates += [level, level * (1 - (tolerance or 0.0))]
    low, high = min(rates), max(rates)
    margin = 0.15 * (high - low) or 0.05 * high
    return low - margin, high + margin


def _hover(shown: ShownSeries, point: Point) -> str:
    """Return what a reader sees who points at an outcome, in lines."""
    commit = short_commit(point.commit)
    where = f"{figures.utc(point.time)} UTC" + (f", commit {commit}" if commit else "")
    judged = shown.judged.get(point.number)
    sentence = ""
    if judged is not None and urgency(point.verdict) < _PASSED:
        sentence = _cut(judged.reason.partition("\n")[0], _SENTENCE)
    lines = (where, _verdict_words(shown, point), sentence, remarks(point))
    return "\n".join(filter(None, lines))


def _verdict_words(shown: ShownSeries, point: Point) -> str:
    if point.throughput is None:
        return f"{point.verdict}: nothing was measured"
    words = f"{point.verdict}: {figures.rate(point.throughput)} {shown.series.unit}/s"
    judged = shown.judged.get(point.number)
    if judged is None or judged.level is None:
        return words
    share = point.throughput / judged.level - 1
    side = "below" if share < 0 else "above"
    return (
        f"{words}, {figures.percent(abs(share), sign=False)} {side} the stored level of "
        f"{figures.rate(judged.level)}"
    )


def _cut(words: str, longest: int) -> str:
    return words if len(words) <= longest else f"{words[: longest - 1]}…"


def _change_words(change: Change) -> str:
    words = (figures.percent(change.change), commits_and_times(change), "; ".join(change.software))
    return ", ".join(filter(None, words))


def commits_and_times(change: Change) -> str:
    """Return after which commit it is, up to which, and when these were measured."""
    period = figures.period([change.last_before.time, change.first_after.time])
    return f"{commits_of(change)} ({period})"


def _accepted_label(level: Acknowledged) -> str:
    return _cut(f"{short_commit(level.commit)} {level.reason}".strip(), _LABEL)


def _accepted_words(level: Acknowledged) -> str:
    commit = f" of commit {short_commit(level.commit)}" if level.commit else ""
    return f"{figures.utc(level.time)} UTC: the level{commit} was accepted: {level.reason}"


def _levels(
    points: Sequence[Point], changes: Sequence[Change], drawn: Sequence[tuple[float, Change]]
) -> Iterator[Mark]:
    """Yield each level that is drawn, from where to where."""
    borders = [-0.5, *(place for place, _ in drawn), len(points) - 0.5]
    first = drawn[0][1].before if drawn else changes[-1].after
    rates = [first, *(change.after for _, change in drawn)]
    for begin, end, rate in zip(borders[:-1], borders[1:], rates, strict=True):
        yield Mark(begin, rate, x2=end, hover=f"level {figures.rate(rate)}")


def _commits(points: Sequence[Point]) -> list[str]:
    """Return the label of each place: the commit where it is another than the one before."""
    commits = [short_commit(point.commit) or "no commit" for point in points]
    return ["" if i and commit == commits[i - 1] else commit for i, commit in enumerate(commits)]


def _caption(shown: ShownSeries, points: Sequence[Point]) -> str:
    """Return what is drawn, and what of it is not known or not drawn."""
    of_all = len(shown.series.points)
    what = figures.counted(len(points), "outcome")
    what += f", the newest of {of_all}" if of_all > len(points) else ""
    sentences = [f"{what}, {figures.period(point.time for point in points)}."]
    read = [shown.judged[point.number] for point in points if point.number in shown.judged]
    if len(read) < len(points):
        sentences.append(f"Runs, intervals and stored levels are those of the newest {len(read)}.")
    without = sum(judged.level is None and bool(judged.runs) for judged in read)
    if without:
        sentences.append(f"{figures.counted(without, 'outcome')} had no stored level.")
    if any(point.throughput is None for point in points):
        sentences.append("At the lower edge: nothing was measured.")
    if any(point.left_out and point.throughput is not None for point in points):
        sentences.append(
            "Hollow: not used for levels (injected, disturbed, modified files), drawn at the edge "
            "where they are outside it."
        )
    return " ".join(sentences)


def _numbers(shown: ShownSeries, points: Sequence[Point]) -> Html:
    rows = [_row(shown, point) for point in points]
    return table(f"{shown.series.case_id}, {shown.series.unit}/s", _COLUMNS, rows)


def _row(shown: ShownSeries, point: Point) -> TableRow:
    judged = shown.judged.get(point.number)
    level = None if judged is None else judged.level
    time, link = text(figures.utc(point.time)), shown.links.get(point.number, "")
    return TableRow(
        cells=(
            TableCell(shown=Html(f'<a href="{text(link)}">{time}</a>') if link else time),
            cell(short_commit(point.commit)),
            number(figures.rate(point.throughput), point.throughput),
            number(figures.rate(level), level),
            number(figures.percent(point.change), point.change),
            cell(point.verdict),
            TableCell(shown=name(remarks(point))),
        )
    )
