"""Settings that hang on several options; ``UsageError`` for those that do not go together."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_dlperf.core.arm import parse_arm
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.place import Place, Share
from pytest_dlperf.core.quantity import parse_duration
from pytest_dlperf.session.option_values import named_hosts, seconds, whole

if TYPE_CHECKING:
    from pytest_dlperf.core.arm import Arm
    from pytest_dlperf.core.hosts import Host

#: Returns the value of the option of a name without ``--dlperf-``.
Get = Callable[[str], Any]


def budget(get: Get) -> float | None:
    """Return for how many seconds a session may measure, None without an end."""
    if get("budget") is None:
        return None
    if get("node-rank") is not None:
        raise UsageError(
            "--dlperf-budget and --dlperf-node-rank: all nodes must launch equally often, and "
            "only one of them could know that time is up; give --dlperf-runs"
        )
    return parse_duration(get("budget"), what="--dlperf-budget")


def protocol(get: Get) -> dict[str, Any]:
    """Return what is given of a protocol, by the names of its fields."""
    values: dict[str, Any] = {
        name.replace("-", "_"): whole(
            get(name), f"--dlperf-{name}", least=0 if name == "warmup" else 1
        )
        for name in ("iterations", "warmup", "runs", "max-runs")
        if get(name) is not None
    }
    if get("timeout") is not None:
        values["timeout_s"] = seconds(get("timeout"), "--dlperf-timeout")
    return values


def place(get: Get, *, workdir: Path, rootdir: Path) -> Place:
    """Return where ranks start."""
    return Place.parse(
        prefix=get("prefix"),
        python=get("python"),
        own_python=sys.executable,
        folders={"workdir": str(workdir), "rootdir": str(rootdir)},
        share=Share.parse(get("node-rank"), get("master")),
    )


def data(get: Get, cwd: Path) -> str | None:
    """Return the folder of real data: of this host in full, of another as it was written."""
    text: str | None = get("data")
    behind = get("prefix")
    return text if text is None or behind else str((cwd / Path(text).expanduser()).resolve())


def from_logs(get: Get, cwd: Path) -> Path | None:
    """Return the folder of logs to judge in place of training."""
    if get("from-logs") is None:
        return None
    folder: Path = cwd / get("from-logs")
    if not folder.is_dir():
        raise UsageError(f"--dlperf-from-logs={folder} is no folder")
    if get("update-baselines"):
        raise UsageError(
            "--update-baselines stores what was measured, and --dlperf-from-logs only judges logs"
        )
    return folder


def against(get: Get) -> Arm | None:
    """Return the other arm of an interleaved A/B."""
    if get("against") is None:
        return None
    arm = parse_arm(get("against"), what="--dlperf-against")
    for option, why in (
        ("update-baselines", "stores what stored baselines judge; measure without an A/B"),
        ("published", "judges against published numbers"),
        ("from-logs", "judges logs, and starts nothing"),
        ("node-rank", "starts this node's share alone, whose turns with the other arm no other "
                      "node would know"),
    ):  # fmt: skip
        if get(option) is not None and get(option) is not False:
            raise UsageError(
                f"--dlperf-against judges by pairs of runs, and --{_long(option)} {why}"
            )
    if get("prefix") and arm.kind in {"requirement", "interpreter"}:
        raise UsageError(
            f"--dlperf-against={arm.name}: what lies behind --dlperf-prefix cannot be changed "
            "from here; name a git ref or settings, or judge two images by stored baselines"
        )
    return arm


def _long(option: str) -> str:
    return option if option == "update-baselines" else f"dlperf-{option}"


def hosts(get: Get, cwd: Path) -> tuple[Host, ...]:
    """Return the hosts that are named, none if there are none."""
    if get("hosts") is None:
        return ()
    if get("node-rank") is not None:
        raise UsageError(
            "--dlperf-hosts starts the ranks of every node, and --dlperf-node-rank those of this "
            "one alone; give one of them"
        )
    return named_hosts(get("hosts"), cwd)
