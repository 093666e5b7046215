"""``dlperf extract`` against a user's script of ``re`` patterns, for every built-in format.

The script reads step and speed line by line, each by a pattern of its own where they are on two
lines; we read all that a line says, count iterations and look for what is odd. Its patterns are
made of the format's own lines: what is before its step and before its rate or time. Both run in
turns in one process, by processor time; the peak memory is that of a process of its own, at a
quarter of the log and at the whole of it.

    python benchmarks/log_speed.py [FORMAT…] [--megabytes=48]
"""

from __future__ import annotations

import argparse
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from pytest_dlperf.measure.logs.clean import plain
from pytest_dlperf.measure.logs.extract import extract
from pytest_dlperf.measure.logs.parsed_log import ParseOptions
from pytest_dlperf.measure.logs.registry import named
from tests.helpers.log_lines import WRITERS
from tests.helpers.log_writer import Writer

PAIRS: Final = 3
#: Of the goals: as many times the script's processor time, and megabytes at the peak.
MOST_TIMES: Final = 1.2
MOST_MEGABYTES: Final = 100
_NUMBER: Final = re.compile(r"\d[\d,]*\.?\d*(?:[eE][+-]?\d+)?")
_TEXT: Final = {"encoding": "utf-8", "errors": "replace", "newline": "\n"}


def lines(name: str, writer: Writer, ranks: int) -> Iterator[str]:
    """Yield the lines of a training whose iterations take 0.2 to 0.3 s, without end."""
    generator = random.Random(name)
    is_running = named(name).averaging == "running"
    in_all_s, step = 0.0, 0
    while True:
        each_s = generator.uniform(0.2, 0.3)
        in_all_s += each_s
        # As in a file, where programs leave colours out.
        line = plain(
            writer(step, in_all_s / (step + 1) if is_running else each_s).encode()
        ).decode()
        for rank in range(ranks):
            yield f"[default{rank}]:{line}\n"
        if not ranks:
            yield f"{line}\n"
        step += 1


def write_log(path: Path, name: str, writer: Writer, ranks: int, megabytes: float) -> None:
    """Write a log of about so many megabytes."""
    size = 0.0
    with path.open("w", encoding="utf-8") as log:
        for line in lines(name, writer, ranks):
            size += log.write(line) / 1e6
            if size > megabytes:
                return


def user_patterns(writer: Writer) -> list[re.Pattern[str]]:
    """Return the pattern of step and speed that a user would write; one of each on two lines."""
    step = _changed(writer, (1234, 0.25), (5678, 0.25))
    speed = _changed(writer, (1234, 0.25), (1234, 0.1))
    first, second = sorted((step, speed), key=re.Match.start)
    words = [_labelled(number) for number in (first, second)]
    is_one_line = "\n" not in first.string[first.end() : second.start()]
    return [*map(re.compile, [".*?".join(words)] if is_one_line else words)]


def _changed(writer: Writer, *prints: tuple[int, float]) -> re.Match[str]:
    """Return the first number that is another one in the second print."""
    texts = [plain(writer(i, s).encode()).decode() for i, s in prints]
    pairs = zip(*map(_NUMBER.finditer, texts), strict=False)
    return next(match for match, other in pairs if match[0] != other[0])


def _labelled(number: re.Match[str]) -> str:
    label = re.search(r"[^\d\n]{0,16}$", number.string[: number.start()])
    parts = map(re.escape, (label[0] if label else "").split(" "))
    return r"\s*".join(parts) + rf"\s*({_NUMBER.pattern})"


def script(path: Path, patterns: Sequence[re.Pattern[str]]) -> int:
    """Return how many prints the user's script reads."""
    prints = []
    searches = [pattern.search for pattern in patterns]
    with path.open(**_TEXT) as log:  # type: ignore[call-overload]
        for line in log:
            for search in searches:
                match = search(line)
                if match is not None:
                    prints.append([float(text.replace(",", "")) for text in match.groups()])
                    break
    return len(prints)


def extracted(path: Path, name: str) -> int:
    """Return how many iterations we measure."""
    options = ParseOptions(fmt=named(name), world_size=1, batch_size_per_device=16)
    return extract(path, options).iterations


def cpu_seconds(function: Callable[[], int]) -> float:
    """Return the processor time that it takes."""
    began_s = time.process_time()
    function()
    return time.process_time() - began_s


def peak_megabytes(path: Path, name: str) -> float:
    """Return the peak memory of a process that reads the log."""
    command = [sys.executable, __file__, name, f"--peak={path}"]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measure(name: str, writer: Writer, ranks: int, megabytes: float, folder: Path) -> bool:
    """Print what one kind of line costs; return whether it is within the goals."""
    path = folder / "train.log"
    write_log(path, name, writer, ranks, megabytes / 4)
    first_peak = peak_megabytes(path, name)
    write_log(path, name, writer, ranks, megabytes)
    peak = peak_megabytes(path, name)
    patterns = user_patterns(writer)
    if not script(path, patterns):
        raise SystemExit(f"the script reads no line of {name}: {patterns}")
    pairs = [
        (
            cpu_seconds(lambda: script(path, patterns)),
            cpu_seconds(lambda: extracted(path, name)),
        )
        for _ in range(PAIRS)
    ]
    times = statistics.median(product_s / script_s for script_s, product_s in pairs)
    size = path.stat().st_size / 1e6
    is_within = times <= MOST_TIMES and max(first_peak, peak) <= MOST_MEGABYTES
    kind = f"{writer.__name__}{f' of {ranks} ranks' if ranks else ''}"
    print(
        f"{name:22} {kind:28} {size / statistics.median(t for t, _ in pairs):6.0f} "
        f"{size / statistics.median(t for _, t in pairs):6.0f} {times:6.2f} {first_peak:6.0f} "
        f"{peak:6.0f} {'' if is_within else 'beyond the goals'}",
        flush=True,
    )
    return is_within


def main() -> None:
    """Print a line for each kind of line of each format."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("formats", nargs="*")
    parser.add_argument("--megabytes", type=float, default=48)
    parser.add_argument("--peak", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        extracted(options.peak, options.formats[0])
        status = Path("/proc/self/status").read_text(encoding="ascii")
        print(int(status.partition("VmHWM:")[2].split()[0]) / 1024)
        return
    print(f"{'':51} script dlperf  times   peak   peak")
    print(f"{'format':22} {'line':28}   MB/s   MB/s          1/4 MB     MB")
    within = []
    with tempfile.TemporaryDirectory() as folder:
        for name, writer in WRITERS:
            if options.formats and name not in options.formats:
                continue
            for ranks in (0, 8) if writer.__name__ in {"megatron", "torchtitan"} else (0,):
                within.append(measure(name, writer, ranks, options.megabytes, Path(folder)))
    print(
        f"{sum(within)} of {len(within)} kinds of lines take at most {MOST_TIMES} times the "
        f"script's time, and {MOST_MEGABYTES} MB"
    )


if __name__ == "__main__":
    main()
