"""``dlperf extract`` against a script of line-by-line ``re.findall``, on the same logs.

The script reads one field, as the one that the PLSC report ends with does; we read all of them.
"""

from __future__ import annotations

import re
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_dlperf.measure.logs.extract import extract
from pytest_dlperf.measure.logs.parsed_log import ParseOptions

if TYPE_CHECKING:
    from collections.abc import Callable

MEGABYTES: Final = 107
PAIRS: Final = 7
_OPTIONS: Final = ParseOptions(world_size=8, batch_size_per_device=256)


def write_log(path: Path, *, chatter: int) -> None:
    """Write a PaddleClas log of about 107 MB, with so many other lines to each record."""
    step = epoch = size = 0
    seconds = 0.0
    with path.open("wb") as log:
        while size < MEGABYTES * 1_000_000:
            step += 10
            seconds += 6.7 + (step * 7919 % 1000) / 10000
            mean = seconds / step
            lines = (
                f"[2023/07/28 07:56:02] ppcls INFO: epoch:{epoch}   train step:{step:<5d} lr: "
                f"0.100000, loss:  {5 + step % 100 / 100:.4f} top1:  0.{step % 10000:04d} top5: "
                f"-0.2109 batch_cost: {mean:.5f} s, reader_cost: {mean / 9:.5f} s, "
                f"ips: {256 / mean:.5f} samples/sec.\n"
            ).encode()
            for index in range(chatter):
                words = b"[2023/07/28 07:56:02] ppcls INFO: some other words, number %d of these, "
                lines += words % index
                lines += b"on a line about as long as any other line of such a log\n"
            log.write(lines)
            size += len(lines)
            if step >= 5000:
                epoch, step, seconds = epoch + 1, 0, 0.0


def script(path: Path) -> int:
    """Return how many speeds the script reads."""
    speeds = []
    with path.open(encoding="utf-8") as log:
        for line in log:
            speeds_of_line = re.findall(r"ips: ([\d.]+) samples/sec", line)
            if speeds_of_line:
                speeds.append(float(speeds_of_line[0]))
    return len(speeds)


def extracted_iterations(path: Path) -> int:
    """Return how many iterations we measure."""
    return extract(path, _OPTIONS).iterations


def seconds_of(function: Callable[[Path], int], path: Path) -> float:
    """Return how long it takes."""
    began_s = time.perf_counter()
    if not function(path):
        raise RuntimeError(f"{path}: nothing was read")
    return time.perf_counter() - began_s


def main() -> None:
    """Print the ratios of pairs, one after the other."""
    with tempfile.TemporaryDirectory() as folder:
        for name, chatter in (("dense", 0), ("one line in a hundred", 99)):
            path = Path(folder) / f"x_gpu8_{chatter}.log"
            write_log(path, chatter=chatter)
            seconds_of(extracted_iterations, path)  # formats are imported
            pairs = [
                (seconds_of(script, path), seconds_of(extracted_iterations, path))
                for _ in range(PAIRS)
            ]
            ratios = [script_s / extract_s for script_s, extract_s in pairs]
            size = path.stat().st_size / 1e6
            print(
                f"{name}: {statistics.median(ratios):.2f} times as fast as the script "
                f"({min(ratios):.2f} to {max(ratios):.2f}, {PAIRS} pairs); script "
                f"{size / statistics.median(t for t, _ in pairs):.0f} MB/s, dlperf "
                f"{size / statistics.median(m for _, m in pairs):.0f} MB/s"
            )
            path.unlink()


if __name__ == "__main__":
    main()
