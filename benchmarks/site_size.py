"""How large the site of a long history is, and how long it takes; by hand.

``python benchmarks/site_size.py FOLDER --sessions=500`` writes a history of that many sessions
of 200 cases into the folder, then its site, and prints sizes and times.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import history_speed
from pytest_dlperf import cli
from pytest_dlperf.store.history.address import parse_address


def main() -> None:
    """Write both, and print what they took."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=Path, help="it is made")
    parser.add_argument("--sessions", type=int, default=500)
    arguments = parser.parse_args()
    began_s = time.perf_counter()
    history = write_history(arguments.folder, arguments.sessions)
    print(f"history: {history.stat().st_size / 1e6:.0f} MB, {time.perf_counter() - began_s:.0f} s")
    began_s = time.perf_counter()
    site = write_site(history, arguments.folder / "site")
    print(f"site: {size_bytes(site) / 1e6:.1f} MB, {time.perf_counter() - began_s:.0f} s")


def write_history(folder: Path, sessions: int) -> Path:
    """Write the sessions of ``history_speed`` into a file, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    address = parse_address("history.sqlite", folder=folder, what="history")
    history_speed.write(address, sessions * history_speed.CASES)
    assert address.file is not None
    return address.file


def write_site(history: Path, folder: Path) -> Path:
    """Write the site of a history by the command, and return its folder."""
    code = cli.main(["history", "site", str(folder), f"--history={history}"])
    assert code == 0, code
    return folder


def size_bytes(folder: Path) -> int:
    """Return the size of all files below ``folder``."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    main()
