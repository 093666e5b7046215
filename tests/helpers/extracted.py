"""A log is read as the command ``dlperf extract`` reads it, with its options."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_dlperf.cli import extract as command
from pytest_dlperf.measure.logs.extract import LogResult, extract


def extracted(path: Path, *options: str) -> LogResult:
    """Return what is read of a log with the options of a command line."""
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return extract(path, command.parse_options(parser.parse_args([str(path), *options])))
