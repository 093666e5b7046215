"""Declares the options; ``Settings`` is the only reader of pytest's configuration."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from pytest_dlperf.core.case import Protocol
    from pytest_dlperf.core.hosts import Host
    from pytest_dlperf.core.place import Place
    from pytest_dlperf.core.verdict import Rule, Verdict

#: Name, keyword arguments of ``addoption``. Texts are parsed in ``Settings``, so that a pytest
#: run without a perf case pays nothing for them.
OPTIONS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("gpus", {"metavar": "N[,N]", "help": "run at these GPU counts (short form: --gpus)"}),
    (
        "cpus",
        {"metavar": "N[,N]", "help": "run with these numbers of CPU processes (short: --cpus)"},
    ),
    ("framework", {"metavar": "NAMES", "help": "only these frameworks, comma separated"}),
    ("size", {"metavar": "tiny|full", "help": "size of the models (full on GPUs, tiny on CPUs)"}),
    ("iterations", {"metavar": "N", "help": "iterations of a run, warm-up included (150)"}),
    ("warmup", {"metavar": "N", "help": "iterations before the measured window (50)"}),
    ("runs", {"metavar": "N", "help": "measure exactly this many runs a case"}),
    ("max-runs", {"metavar": "N", "help": "at most this many runs to confirm a verdict (10)"}),
    ("timeout", {"metavar": "S", "help": "seconds after which a run is ended (1800)"}),
    (
        "tolerance",
        {"metavar": "SHARE", "help": "slowdown up to which a case passes, as 3%% (learnt)"},
    ),
    ("tolerance-max", {"metavar": "SHARE", "help": "largest learnt tolerance (20%%)"}),
    ("min-effect", {"metavar": "SHARE", "help": "a slowdown below this is no regression (1%%)"}),
    ("alpha", {"metavar": "SHARE", "help": "share of unchanged suites with a false alarm (5%%)"}),
    ("family", {"metavar": "N", "help": "number of comparisons that alpha is split over"}),
    (
        "inject",
        {
            "metavar": "[GLOB:]SHARE",
            "action": "append",
            "default": [],
            "help": "make measured steps longer by this, to see the gate fail",
        },
    ),
    ("baselines", {"metavar": "DIR", "help": "folder of the baselines (baselines/ at rootdir)"}),
    ("reason", {"metavar": "TEXT", "default": "", "help": "why a changed level is accepted"}),
    (
        "mode",
        {
            "metavar": "gate|observe",
            "default": "gate",
            "help": "observe: nothing but an error fails a test",
        },
    ),
    ("json", {"metavar": "FILE", "help": "write the outcomes as JSON"}),
    ("workdir", {"metavar": "DIR", "help": "folder of logs and records (.dlperf/ at rootdir)"}),
    ("launcher", {"metavar": "NAME", "help": "start ranks by this launcher, whatever cases say"}),
    (
        "prefix",
        {
            "metavar": "COMMAND",
            "help": "put before the launcher's command: a container, numactl ...; {workdir} and "
            "{rootdir} are filled in",
        },
    ),
    ("python", {"metavar": "PATH", "help": "interpreter of the ranks (python3 behind a prefix)"}),
    (
        "data",
        {
            "metavar": "DIR",
            "help": "train on real data in this folder, or in its sub-folder of the suite's name "
            "(synthetic data); behind a prefix, as it is named there",
        },
    ),
    ("node-rank", {"metavar": "R", "help": "run this node's share of layouts of several nodes"}),
    (
        "hosts",
        {"metavar": "n1:8,n2:8", "help": "hosts of several nodes; with --dlperf-dry-run only"},
    ),
    ("master", {"metavar": "ADDR:PORT", "help": "where the ranks of all nodes meet: on node 0"}),
)
FLAGS: Final[tuple[tuple[str, str], ...]] = (
    ("update-baselines", "measure, judge, then write the baselines (short: --update-baselines)"),
    ("strict", "fail whatever was not judged"),
    ("list", "list every case of every size, framework and layout, and run nothing"),
    ("dry-run", "print the commands and their environment, and run nothing"),
    ("share-host", "do not wait for other cases on this host (a condition of the baseline)"),
    ("published", "judge against the published numbers of this machine class"),
)


def add_options(parser: pytest.Parser) -> None:
    """Declare the long options and the ini keys; the short ones are rewritten to them."""
    group = parser.getgroup("dlperf", "training performance (pytest-dlperf)")
    for name, keywords in OPTIONS:
        group.addoption(f"--dlperf-{name}", **keywords)
    for name, text in FLAGS:
        group.addoption(f"--dlperf-{name}", action="store_true", help=text)
    parser.addini(
        "dlperf_fail_on", "verdicts that fail a test, beside regressed and error", "args"
    )
    parser.addini("dlperf_machine_class", "name of this machine's class, instead of the found one")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything that the user can set, parsed and checked."""

    gpus: tuple[int, ...] | None
    cpus: tuple[int, ...] | None
    size: str | None
    frameworks: tuple[str, ...] | None
    protocol: dict[str, Any]
    rule: Rule
    #: Whether the size of the family was given.
    family_given: bool
    inject: tuple[tuple[str, float], ...]
    fail_on: frozenset[Verdict]
    observe: bool
    update: bool
    reason: str
    baselines: Path
    workdir: Path
    rootdir: Path
    json: Path | None
    #: Folder of real data, as the ranks see it; None for synthetic data.
    data: str | None
    machine_class: str | None
    #: Of all cases; None: what each of them names.
    launcher: str | None
    place: Place
    share_host: bool
    published: bool
    #: Empty if none are named.
    hosts: tuple[Host, ...]
    list_only: bool
    dry_run: bool

    @classmethod
    def from_config(cls, config: pytest.Config) -> Settings:
        """Return the settings of this pytest run; raise ``UsageError`` for what is no value."""
        import os

        from pytest_dlperf.core.case import FRAMEWORKS, SIZES
        from pytest_dlperf.core.errors import UsageError
        from pytest_dlperf.core.verdict import Rule

        def get(name: str) -> Any:
            return config.getoption(f"dlperf_{name.replace('-', '_')}")

        def path(name: str, default: str) -> Path:
            return (
                config.invocation_params.dir / get(name)
                if get(name)
                else config.rootpath / default
            )

        shares: dict[str, Any] = {
            name.replace("-", "_"): _share(get(name), f"--dlperf-{name}")
            for name in ("tolerance", "tolerance-max", "min-effect", "alpha")
            if get(name) is not None
        }
        if get("published") and get("update-baselines"):
            raise UsageError(
                "--dlperf-published judges against published numbers, and --update-baselines "
                "stores what was judged against this machine's own; give one of them"
            )
        if get("family") is not None:
            shares["family"] = _whole(get("family"), "--dlperf-family")
        return cls(
            gpus=_counts(get("gpus"), "--gpus"),
            cpus=_counts(get("cpus"), "--cpus"),
            size=_one_of(get("size"), SIZES, "--dlperf-size"),
            frameworks=_names(get("framework"), FRAMEWORKS, "--dlperf-framework"),
            protocol=_protocol(get),
            rule=Rule(**shares),
            family_given=get("family") is not None,
            inject=tuple(_inject(text) for text in get("inject")),
            fail_on=_fail_on(config.getini("dlperf_fail_on"), strict=get("strict")),
            observe=_one_of(get("mode"), ("gate", "observe"), "--dlperf-mode") == "observe",
            update=get("update-baselines"),
            reason=get("reason").strip(),
            baselines=path("baselines", "baselines"),
            workdir=path("workdir", ".dlperf"),
            rootdir=config.rootpath,
            json=config.invocation_params.dir / get("json") if get("json") else None,
            data=_data(get("data"), config.invocation_params.dir, behind=get("prefix")),
            machine_class=_machine_class(
                os.environ.get("DLPERF_MACHINE_CLASS") or config.getini("dlperf_machine_class")
            ),
            launcher=get("launcher"),
            place=_place(get, path("workdir", ".dlperf"), config.rootpath),
            share_host=get("share-host"),
            published=get("published"),
            hosts=_hosts(get),
            list_only=get("list"),
            dry_run=get("dry-run"),
        )

    @property
    def runs_nothing(self) -> bool:
        """Whether this session only tells what it would do."""
        return self.list_only or self.dry_run

    def protocol_for(self, declared: Protocol) -> Protocol:
        """Return ``declared`` with what the command line replaces; raise ``UsageError``."""
        values = dict(self.protocol)
        if "runs" in values:
            values["adaptive"] = "max_runs" in values
            values.setdefault("max_runs", values["runs"])
        elif "max_runs" in values:
            values["runs"] = min(declared.runs, values["max_runs"])
        if {"iterations", "warmup"} & set(values):
            values["declared_window"] = declared.window
        if self.place.share is not None:
            # All nodes must launch equally often, and only node 0 could see a verdict coming
            values |= {"adaptive": False, "max_runs": values.get("runs", declared.runs)}
        return replace(declared, **values)


def _protocol(get: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        name.replace("-", "_"): _whole(
            get(name), f"--dlperf-{name}", least=0 if name == "warmup" else 1
        )
        for name in ("iterations", "warmup", "runs", "max-runs")
        if get(name) is not None
    }
    if get("timeout") is not None:
        values["timeout_s"] = _seconds(get("timeout"), "--dlperf-timeout")
    return values


def _place(get: Any, workdir: Path, rootdir: Path) -> Place:
    import sys

    from pytest_dlperf.core.place import Place, Share

    return Place.parse(
        prefix=get("prefix"),
        python=get("python"),
        own_python=sys.executable,
        folders={"workdir": str(workdir), "rootdir": str(rootdir)},
        share=Share.parse(get("node-rank"), get("master")),
    )


def _data(text: str | None, start: Path, behind: str | None) -> str | None:
    """Return the folder of real data: of this host in full, of another as it was written."""
    from pathlib import Path

    return text if text is None or behind else str((start / Path(text).expanduser()).resolve())


def _hosts(get: Any) -> tuple[Host, ...]:
    from pytest_dlperf.core.errors import UsageError
    from pytest_dlperf.core.hosts import parse_hosts

    if get("hosts") is None:
        return ()
    hosts = parse_hosts(get("hosts"))
    if not get("dry-run"):
        raise UsageError(
            "--dlperf-hosts prints the commands of every node, with --dlperf-dry-run; to run "
            "them, start each node's share with --dlperf-node-rank and --dlperf-master"
        )
    return hosts


def _share(text: str, what: str) -> float:
    from pytest_dlperf.core.quantity import parse_share

    return parse_share(text, what=what)


def _seconds(text: str, what: str) -> float:
    from pytest_dlperf.core.errors import UsageError

    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 0 < value < float("inf"):
        raise UsageError(f"{what}={text}: give a number of seconds above 0")
    return value


def _whole(text: str, what: str, least: int = 1) -> int:
    from pytest_dlperf.core.errors import UsageError

    if not text.strip().isdecimal() or int(text) < least:
        raise UsageError(f"{what}={text}: give a whole number, {least} or more")
    return int(text)


def _counts(text: str | None, what: str) -> tuple[int, ...] | None:
    if text is None:
        return None
    return tuple(dict.fromkeys(_whole(part, what) for part in text.split(",")))


def _one_of(text: str | None, known: tuple[str, ...], what: str) -> str | None:
    from pytest_dlperf.core.errors import UsageError

    if text is not None and text not in known:
        raise UsageError(f"{what}={text}: known are {', '.join(known)}")
    return text


def _names(text: str | None, known: tuple[str, ...], what: str) -> tuple[str, ...] | None:
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    for name in names:
        _one_of(name, known, what)
    return tuple(names)


def _inject(text: str) -> tuple[str, float]:
    from pytest_dlperf.core.quantity import parse_share

    glob, _, share = text.rpartition(":")
    return glob or "*", parse_share(share, what="--dlperf-inject")


def _fail_on(names: list[str], *, strict: bool) -> frozenset[Verdict]:
    from pytest_dlperf.core.errors import UsageError
    from pytest_dlperf.core.verdict import BAD, GOOD, NOT_JUDGED, Verdict

    known = [verdict.value for verdict in Verdict if verdict not in GOOD]
    for name in names:
        if name not in known:
            raise UsageError(f"ini dlperf_fail_on: {name!r} is none of {', '.join(known)}")
    return BAD | {Verdict(name) for name in names} | (NOT_JUDGED if strict else frozenset())


def _machine_class(text: str) -> str | None:
    import re

    from pytest_dlperf.core.errors import UsageError

    if text and not re.fullmatch(r"[a-z0-9][a-z0-9.+_-]*", text):
        raise UsageError(
            f"dlperf_machine_class {text!r}: use small letters, digits and . + _ - only, for "
            "instance 8x-v100-sxm2-32gb"
        )
    return text or None
