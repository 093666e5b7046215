"""The settings of a session: ``Settings`` is the only reader of its options."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_dlperf.core.arm import Arm
from pytest_dlperf.core.case import Protocol
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.hosts import Host
from pytest_dlperf.core.place import Place
from pytest_dlperf.core.scheduling import IN_JOB, Scheduling
from pytest_dlperf.core.verdict import BAD, GOOD, NOT_JUDGED, Judgement, KnownState, Rule, Verdict
from pytest_dlperf.session import option_groups
from pytest_dlperf.session.option_groups import HistoryWish, history_wish
from pytest_dlperf.session.option_values import Get, Given, report_files

if TYPE_CHECKING:
    import pytest


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
    #: Names of what the results are sent to at the end.
    sinks: tuple[str, ...]
    #: Results file of an interrupted session; None without one.
    resume: Path | None
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
    #: How pairs are measured; empty for lock-step where it fits.
    pairs: str
    #: When steps are profiled to explain a verdict; None if nothing was said.
    explain: str | None
    #: What runs the cases as jobs; None where this session runs them.
    scheduling: Scheduling | None

    @classmethod
    def from_config(cls, config: pytest.Config) -> Settings:
        """Return the settings of this pytest run; raise ``UsageError`` for an invalid value."""
        return cls.from_options(
            lambda name: config.getoption(f"dlperf_{name.replace('-', '_')}"),
            config.getini,
            cwd=config.invocation_params.dir,
            root=config.rootpath,
            environ=os.environ,
        )

    @classmethod
    def from_options(
        cls, get: Get, getini: Get, *, cwd: Path, root: Path, environ: Mapping[str, str]
    ) -> Settings:
        """Return the settings that are given; raise ``UsageError`` for an invalid value.

        ``get`` returns the value of an option, which is named without ``--dlperf-``, ``getini``
        that of an ini key. Relative paths of options are below ``cwd``, those of the ini file
        below ``root``.
        """

        def path(name: str, default: str) -> Path:
            return cwd / get(name) if get(name) else root / default

        given = Given(get)
        return cls(
            gpus=given("gpus"),
            cpus=given("cpus"),
            size=given("size"),
            frameworks=given("framework"),
            precisions=given("precision"),
            protocol=option_groups.protocol(given),
            rule=option_groups.rule(given),
            family_given=get("family") is not None,
            inject=given("inject"),
            budget_s=given("budget"),
            fail_on=_fail_on(getini("dlperf_fail_on"), strict=get("strict")),
            observe=given("mode") == "observe",
            # A job measures; the session that submitted it stores
            update=get("update-baselines") and get("scheduler") != IN_JOB,
            reason=get("reason").strip(),
            baselines=path("baselines", "baselines"),
            workdir=path("workdir", ".dlperf"),
            rootdir=root,
            reports=report_files(get, cwd),
            history=history_wish(get, getini, cwd=cwd, root=root, environ=environ),
            sinks=option_groups.sinks(given, get),
            resume=cwd / get("resume") if get("resume") else None,
            data=option_groups.data(get, cwd),
            machine_class=_machine_class(
                environ.get("DLPERF_MACHINE_CLASS") or getini("dlperf_machine_class")
            ),
            launcher=get("launcher"),
            place=option_groups.place(get, workdir=path("workdir", ".dlperf"), rootdir=root),
            share_host=get("share-host"),
            published=get("published"),
            hosts=option_groups.hosts(get, cwd),
            ssh=get("ssh"),
            rendezvous=given("rendezvous") or "static",
            travelling=given("env") or (),
            from_logs=option_groups.from_logs(get, cwd),
            list_only=get("list"),
            dry_run=get("dry-run"),
            against=option_groups.against(get),
            arm_setup=getini("dlperf_arm_setup").strip(),
            arm_links=tuple(getini("dlperf_arm_link")),
            busy_gpus=given("busy-gpus"),
            pairs=option_groups.pairs(given, get),
            explain=given("explain"),
            scheduling=Scheduling.parse(get),
        )

    @property
    def runs_nothing(self) -> bool:
        """Whether this session only shows what it would do."""
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
        if self.place.node_part is not None:
            # All nodes must launch equally often, and only node 0 could see a verdict coming
            values |= {"adaptive": False, "max_runs": values.get("runs", declared.runs)}
        return replace(declared, **values)


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
