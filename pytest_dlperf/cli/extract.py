"""``dlperf extract``: the rates of training logs as a table, as JSON, or as a results file."""

from __future__ import annotations

import argparse
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_dlperf.cli.parser import add_json
from pytest_dlperf.cli.stdout import json_text, say
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.log_pattern import pattern
from pytest_dlperf.core.replaced_file import replace_file
from pytest_dlperf.core.run import Problem
from pytest_dlperf.measure.logs import problems, registry, rules, user_pattern
from pytest_dlperf.measure.logs.extract import LogResult, extract
from pytest_dlperf.measure.logs.parsed_log import ParseOptions
from pytest_dlperf.measure.logs.path_words import Place
from pytest_dlperf.report import figures
from pytest_dlperf.report.aligned import aligned


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_logs(parser)
    add_reading(parser)
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the JSON here as well")
    add_json(parser)
    parser.set_defaults(run=_extract)


def add_logs(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name logs."""
    parser.add_argument("logs", nargs="*", type=Path, metavar="LOG", help="logs of trainings")
    parser.add_argument(
        "--log_dir", "--log-dir", type=Path, metavar="DIR", help="every log in this folder"
    )


def add_reading(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how a log is read."""
    parser.add_argument(
        "--batch_size_per_device",
        "--batch-size-per-device",
        type=positive,
        metavar="N",
        help="batch size of one device (what the log or its path says)",
    )
    parser.add_argument(
        "--world_size",
        "--world-size",
        type=positive,
        metavar="N",
        help="number of devices (what the log or its path says)",
    )
    parser.add_argument(
        "--rule",
        metavar="RULE",
        default="time-weighted",
        help="time-weighted, dlperf (mean of printed speeds) or dlperf-time (from time stamps) "
        "(time-weighted)",
    )
    parser.add_argument(
        "--skip", type=_count, default=50, metavar="N", help="iterations of warm-up (50)"
    )
    parser.add_argument(
        "--until", type=positive, metavar="N", help="last iteration (seed rules: 150)"
    )
    parser.add_argument(
        "--format", metavar="NAME", help="name of the format, where its look is not enough"
    )
    parser.add_argument(
        "--pattern",
        action="append",
        metavar="REGEX",
        help="a line, with groups step, and rate, seconds, milliseconds or elapsed (step alone: "
        "the clock of the lines says it); again for each further line of a record",
    )
    parser.add_argument(
        "--scope",
        choices=("device", "process", "node", "global"),
        help="whose rate it is that --pattern reads (global)",
    )
    parser.add_argument(
        "--averaging",
        choices=("iteration", "window", "running"),
        help="what the rate that --pattern reads is a mean over (window)",
    )
    parser.add_argument(
        "--unit",
        metavar="NAME",
        help="what --pattern counts (samples); iterations: those of any format that prints times",
    )


def positive(text: str) -> int:
    """Return a whole number, 1 or more."""
    value = _count(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return value


def _count(text: str) -> int:
    if not text.isdecimal() or len(text) > 15:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def _extract(arguments: argparse.Namespace) -> int:
    asked = parse_options(arguments)
    results = [extract(path, asked) for path in paths(arguments)]
    summary = summarise(results)
    text = json_text(_to_json(results, summary))
    if arguments.save is not None:
        _save(arguments.save, text + "\n")
    if not arguments.json:
        text = _table(results, summary)
        if arguments.save is not None:
            text += f"\nSaving result to {arguments.save}"
    say(text)
    return 1 if any(result.throughput is None for result in results) else 0


def parse_options(arguments: argparse.Namespace) -> ParseOptions:
    """Return what the options ask of a log; raise ``UsageError`` if they contradict."""
    rules.named(arguments.rule)
    meaning = {
        name: value
        for name in ("scope", "averaging", "unit")
        if (value := getattr(arguments, name)) is not None
    }
    if arguments.pattern is not None and arguments.format is not None:
        raise UsageError("--pattern and --format both say what a line is; give one")
    in_iterations = arguments.pattern is None and meaning.get("unit") == registry.ITERATIONS
    if meaning and arguments.pattern is None and not (in_iterations and len(meaning) == 1):
        raise UsageError(
            f"--{next(iter(meaning))} says what the numbers of --pattern mean; a format "
            "declares its own (--unit=iterations counts iterations by the times that it prints)"
        )
    fmt = None
    if arguments.pattern is not None:
        fmt = user_pattern.format_of_pattern(pattern(*arguments.pattern, **meaning))
    elif arguments.format is not None:
        fmt = registry.named(arguments.format)
    return ParseOptions(
        fmt=fmt,
        in_iterations=in_iterations,
        rule=arguments.rule,
        skip=arguments.skip,
        until=arguments.until,
        batch_size_per_device=arguments.batch_size_per_device,
        world_size=arguments.world_size,
    )


def paths(arguments: argparse.Namespace) -> list[Path]:
    """Return the logs that the arguments name; raise ``UsageError`` for none."""
    found: list[Path] = list(arguments.logs)
    folder: Path | None = arguments.log_dir
    if folder is not None:
        if not folder.is_dir():
            raise UsageError(f"--log_dir: {folder} is not a directory")
        found += sorted(path for path in folder.rglob("*") if path.is_file())
    if not found:
        raise UsageError("no log: name files, or a folder that holds some with --log_dir")
    return found


def _save(path: Path, text: str) -> None:
    try:
        replace_file(path, text.encode())
    except OSError as error:
        raise UsageError(f"--save: {path}: {error.strerror}") from error


def _to_json(results: Sequence[LogResult], summary: Summary | None) -> dict[str, Any]:
    values: dict[str, Any] = {"format": 1, "logs": [result.to_json() for result in results]}
    if summary is not None:
        values["summary"] = summary.models
        values["problems"] = [
            {"code": problem.code, "message": problem.message} for problem in summary.problems
        ]
    return values


def _table(results: Sequence[LogResult], summary: Summary | None) -> str:
    head = ("log", "format", "devices", "batch", "precision", "iterations", "throughput", "unit")
    rows = [head]
    for result in results:
        rows.append(
            (
                result.path,
                result.format or figures.ABSENT,
                str(result.world_size or figures.ABSENT),
                str(result.batch_size_per_device or figures.ABSENT),
                result.precision or figures.ABSENT,
                str(result.iterations),
                figures.rate(result.throughput),
                f"{result.unit}/s" if result.unit else "",
            )
        )
    lines = aligned(rows)
    for result in results:
        lines += [
            f"{result.path}: {problem.code}: {problems.with_remedy(problem)}"
            for problem in result.problems
        ]
    if summary is not None:
        lines += ["", *_summary_lines(summary)]
    return "\n".join(lines)


def _summary_lines(summary: Summary) -> list[str]:
    lines = []
    for model, layouts in summary.models.items():
        lines.append(f"{model}:")
        for layout, cell in layouts.items():
            shown = ", ".join(f"{name} {value}" for name, value in cell.items())
            lines.append(f"  {layout}: {shown}")
    return lines + [f"{problem.code}: {problem.message}" for problem in summary.problems]


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """Rates by model and layout, with what is odd between layouts."""

    models: Mapping[str, Mapping[str, Mapping[str, Any]]]
    problems: tuple[Problem, ...]


def summarise(results: Sequence[LogResult]) -> Summary | None:
    """Return the summary of logs in folders named by layout; None if there are none."""
    cells: dict[tuple[str, int, str], dict[str, list[tuple[Place, float]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for result in results:
        place = Place.of(result.path)
        if place is not None and result.throughput is not None:
            key = (place.model, place.batch_size_per_device, place.precision)
            cells[key][place.layout].append((place, result.throughput))
    if not cells:
        return None
    names = _names(tuple(cells))
    models = {names[key]: _layouts(by_layout) for key, by_layout in cells.items()}
    odd = [
        problem
        for key, by_layout in cells.items()
        for problem in problems.implausible(names[key], _medians(by_layout))
    ]
    return Summary(models=models, problems=tuple(odd))


def _names(keys: Sequence[tuple[str, int, str]]) -> dict[tuple[str, int, str], str]:
    """Return the model's name for each key, with batch and precision where it is not enough."""
    counts: dict[str, int] = defaultdict(int)
    for model, _, _ in keys:
        counts[model] += 1
    return {key: key[0] if counts[key[0]] == 1 else f"{key[0]}_b{key[1]}_{key[2]}" for key in keys}


def _medians(
    by_layout: Mapping[str, Sequence[tuple[Place, float]]],
) -> dict[str, tuple[int, float]]:
    return {
        layout: (runs[0][0].world_size, statistics.median(rate for _, rate in runs))
        for layout, runs in by_layout.items()
    }


def _layouts(
    by_layout: Mapping[str, Sequence[tuple[Place, float]]],
) -> dict[str, dict[str, Any]]:
    medians = _medians(by_layout)
    # As the DLPerf reports: the speed of one device, rounded only in print.
    base = next((rate for world, rate in medians.values() if world == 1), None)
    return {
        layout: {
            "average_speed": round(statistics.fmean(rate for _, rate in runs), 2),
            "batch_size_per_device": runs[0][0].batch_size_per_device,
            "median_speed": round(medians[layout][1], 2),
            "speedup": None if base is None else round(medians[layout][1] / base, 2),
        }
        for layout, runs in sorted(by_layout.items())
    }
