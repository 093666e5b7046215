"""The settings of a session: ``Settings`` is the only reader of pytest's configuration."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_dlperf.core.arm import parse_arm
from pytest_dlperf.core.case import FRAMEWORKS, PRECISIONS, SIZES
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.place import Place, Share
from pytest_dlperf.core.quantity import parse_duration, parse_share
from pytest_dlperf.core.scheduling import IN_JOB, Scheduling
from pytest_dlperf.core.verdict import BAD, GOOD, NOT_JUDGED, KnownState, Rule, Verdict
from pytest_dlperf.history_wish import HistoryWish, history_wish
from pytest_dlperf.option_values import (
    BUSY_GPUS,
    counts,
    inject,
    named_hosts,
    names,
    names_of_variables,
    one_of,
    report_files,
    seconds,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

    from pytest_dlperf.core.arm import Arm
    from pytest_dlperf.core.case import Protocol
    from pytest_dlperf.core.hosts import Host
    from pytest_dlperf.core.verdict import Judgement


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything that the user can set, parsed and checked."""

    gpus: tuple[int, ...] | None
    cpus: tuple[int, ...] | None
    size: str | None
    frameworks: tuple[str, ...] | None
    precisions: tuple[str, ...] | None
    protocol: dict[str, Any]
    rule: Rule
    #: Whether the size of the family was given.
    family_given: bool
    inject: tuple[tuple[str, float], ...]
    #: How long this session may measure; None without an end.
    budget_s: float | None
    fail_on: frozenset[Verdict]
    observe: bool
    update: bool
    reason: str
    baselines: Path
    workdir: Path
    rootdir: Path
    #: The files to make of the outcomes, by the option that names them: ``json``, ``html`` ...
    reports: Mapping[str, Path]
    history: HistoryWish | None
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
    #: ``ssh`` with its options; None for the usual one.
    ssh: str | None
    #: How torchrun's nodes meet.
    rendezvous: str
    #: Names of variables whose values travel to the nodes.
    travelling: tuple[str, ...]
    #: Folder of logs to judge in place of training.
    from_logs: Path | None
    list_only: bool
    dry_run: bool
    #: The other arm of an interleaved A/B; None where stored baselines count.
    against: Arm | None
    #: A command that prepares a ref's tree, and untracked paths that are linked into it.
    arm_setup: str
    arm_links: tuple[str, ...]
    #: What is done where others use the GPUs of a case; None if nothing was said.
    busy_gpus: str | None
    #: What runs the cases as jobs; None where this session runs them.
    scheduling: Scheduling | None

    @classmethod
    def from_config(cls, config: pytest.Config) -> Settings:
        """Return the settings of this pytest run; raise ``UsageError`` for what is no value."""

        def get(name: str) -> Any:
            return config.getoption(f"dlperf_{name.replace('-', '_')}")

        def path(name: str, default: str) -> Path:
            return (
                config.invocation_params.dir / get(name)
                if get(name)
                else config.rootpath / default
            )

        shares: dict[str, Any] = {
            name.replace("-", "_"): parse_share(get(name), what=f"--dlperf-{name}")
            for name in ("tolerance", "tolerance-max", "min-effect", "alpha")
            if get(name) is not None
        }
        if get("published") and get("update-baselines"):
            raise UsageError(
                "--dlperf-published judges against published numbers, and --update-baselines "
                "stores what was judged against this machine's own; give one of them"
            )
        if get("family") is not None:
            shares["family"] = whole(get("family"), "--dlperf-family")
        return cls(
            gpus=counts(get("gpus"), "--gpus"),
            cpus=counts(get("cpus"), "--cpus"),
            size=one_of(get("size"), SIZES, "--dlperf-size"),
            frameworks=names(get("framework"), FRAMEWORKS, "--dlperf-framework"),
            precisions=names(get("precision"), PRECISIONS, "--dlperf-precision"),
            protocol=_protocol(get),
            rule=Rule(**shares),
            family_given=get("family") is not None,
            inject=tuple(inject(text) for text in get("inject")),
            budget_s=_budget(get),
            fail_on=_fail_on(config.getini("dlperf_fail_on"), strict=get("strict")),
            observe=one_of(get("mode"), ("gate", "observe"), "--dlperf-mode") == "observe",
            # A job measures; the session that submitted it stores
            update=get("update-baselines") and get("scheduler") != IN_JOB,
            reason=get("reason").strip(),
            baselines=path("baselines", "baselines"),
            workdir=path("workdir", ".dlperf"),
            rootdir=config.rootpath,
            reports=report_files(get, config.invocation_params.dir),
            history=history_wish(config),
            data=_data(get("data"), config.invocation_params.dir, behind=get("prefix")),
            machine_class=_machine_class(
                os.environ.get("DLPERF_MACHINE_CLASS") or config.getini("dlperf_machine_class")
            ),
            launcher=get("launcher"),
            place=_place(get, path("workdir", ".dlperf"), config.rootpath),
            share_host=get("share-host"),
            published=get("published"),
            hosts=_hosts(get, config.invocation_params.dir),
            ssh=get("ssh"),
            rendezvous=one_of(get("rendezvous"), ("static", "c10d"), "--dlperf-rendezvous")
            or "static",
            travelling=names_of_variables(get("env")),
            from_logs=_from_logs(get, config.invocation_params.dir),
            list_only=get("list"),
            dry_run=get("dry-run"),
            against=_against(get),
            arm_setup=config.getini("dlperf_arm_setup").strip(),
            arm_links=tuple(config.getini("dlperf_arm_link")),
            busy_gpus=one_of(get("busy-gpus"), BUSY_GPUS, "--dlperf-busy-gpus"),
            scheduling=Scheduling.parse(get),
        )

    @property
    def runs_nothing(self) -> bool:
        """Whether this session only tells what it would do."""
        return self.list_only or self.dry_run

    def gate_fails(self, judgement: Judgement) -> bool:
        """Whether a verdict fails a test in gate mode."""
        if judgement.known is KnownState.KNOWN and judgement.verdict is Verdict.REGRESSED:
            return False
        return judgement.known is KnownState.GONE or judgement.verdict in self.fail_on

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


def _budget(get: Any) -> float | None:
    if get("budget") is None:
        return None
    if get("node-rank") is not None:
        raise UsageError(
            "--dlperf-budget and --dlperf-node-rank: all nodes must launch equally often, and "
            "only one of them could know that time is up; give --dlperf-runs"
        )
    return parse_duration(get("budget"), what="--dlperf-budget")


def _protocol(get: Any) -> dict[str, Any]:
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


def _place(get: Any, workdir: Path, rootdir: Path) -> Place:
    return Place.parse(
        prefix=get("prefix"),
        python=get("python"),
        own_python=sys.executable,
        folders={"workdir": str(workdir), "rootdir": str(rootdir)},
        share=Share.parse(get("node-rank"), get("master")),
    )


def _data(text: str | None, start: Path, behind: str | None) -> str | None:
    """Return the folder of real data: of this host in full, of another as it was written."""
    return text if text is None or behind else str((start / Path(text).expanduser()).resolve())


def _from_logs(get: Any, here: Path) -> Path | None:
    if get("from-logs") is None:
        return None
    folder: Path = here / get("from-logs")
    if not folder.is_dir():
        raise UsageError(f"--dlperf-from-logs={folder} is no folder")
    if get("update-baselines"):
        raise UsageError(
            "--update-baselines stores what was measured, and --dlperf-from-logs only judges logs"
        )
    return folder


def _against(get: Any) -> Arm | None:
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


def _hosts(get: Any, config_dir: Path) -> tuple[Host, ...]:
    if get("hosts") is None:
        return ()
    if get("node-rank") is not None:
        raise UsageError(
            "--dlperf-hosts starts the ranks of every node, and --dlperf-node-rank those of this "
            "one alone; give one of them"
        )
    return named_hosts(get("hosts"), config_dir)


def _fail_on(names: list[str], *, strict: bool) -> frozenset[Verdict]:
    known = [verdict.value for verdict in Verdict if verdict not in GOOD]
    for name in names:
        if name not in known:
            raise UsageError(f"ini dlperf_fail_on: {name!r} is none of {', '.join(known)}")
    return BAD | {Verdict(name) for name in names} | (NOT_JUDGED if strict else frozenset())


def _machine_class(text: str) -> str | None:
    if text and not re.fullmatch(r"[a-z0-9][a-z0-9.+_-]*", text):
        raise UsageError(
            f"dlperf_machine_class {text!r}: use small letters, digits and . + _ - only, for "
            "instance 8x-v100-sxm2-32gb"
        )
    return text or None
