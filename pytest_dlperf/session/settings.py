"""The settings of a session: ``Settings`` is the only reader of its options."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_dlperf.core.arm import Arm, parse_arm
from pytest_dlperf.core.cost import COST_CLASS
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.place import IN_JOB, Host, NodePart, Place, Scheduling
from pytest_dlperf.core.protocol import Protocol
from pytest_dlperf.core.verdict import CONFIRM, NEVER, Judgement, Rule, Verdict
from pytest_dlperf.launch.remote.transport import named_hosts
from pytest_dlperf.session.fail_on import FailOn
from pytest_dlperf.session.option_values import Get, Given, report_files
from pytest_dlperf.store.history.name import Database, check_file, database_of, is_url

if TYPE_CHECKING:
    import pytest


_OFF: Final = "off"
#: The modules that reach each database, and the extra with each.
_MODULES: Final[dict[Database, tuple[tuple[str, str], ...]]] = {
    "sqlite": (("sqlalchemy", "history"),),
    "postgresql": (("sqlalchemy", "postgresql"), ("psycopg", "postgresql")),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class HistoryWish:
    """The history of a session."""

    #: A file or a URL, which may hold a password; empty: the file of the working folder.
    text: str
    #: Where relative files are.
    folder: Path
    #: What named it: ``--dlperf-history`` ...; empty if nothing did.
    named_by: str


def history_wish(
    get: Callable[[str], Any],
    getini: Callable[[str], Any],
    *,
    cwd: Path,
    root: Path,
    environ: Mapping[str, str],
) -> HistoryWish | None:
    """Return what was said of the history, None where nothing is to be added to one.

    The arguments are those of ``Settings.from_options``. Raises ``UsageError`` where it was named
    and cannot be: what it needs is not installed.
    """
    # A job measures; the session that submitted it has the history
    if get("scheduler") == IN_JOB:
        return None
    for text, folder, named_by in (
        (get("history"), cwd, "--dlperf-history"),
        (environ.get("DLPERF_HISTORY"), cwd, "DLPERF_HISTORY"),
        (getini("dlperf_history"), root, "ini dlperf_history"),
    ):
        if text == _OFF:
            return None
        if text:
            _check(text, folder, named_by)
            return HistoryWish(text=text, folder=folder, named_by=named_by)
    if find_spec("sqlalchemy") is None:
        return None
    return HistoryWish(text="", folder=cwd, named_by="")


def sinks(given: Given, get: Get) -> tuple[str, ...]:
    """Return the names of the sinks, each once, in their order; ``off`` clears those before."""
    # A job measures; the session that submitted it sends
    if get("scheduler") == IN_JOB:
        return ()
    found: list[str] = []
    for name in given("sink") or ():
        found = [] if name == _OFF else [*found, name]
    return tuple(dict.fromkeys(found))


def _check(text: str, folder: Path, named_by: str) -> None:
    database = database_of(text, what=named_by)
    if not is_url(text):
        check_file((folder / Path(text).expanduser()).absolute(), what=named_by)
    for name, extra in _MODULES[database]:
        if find_spec(name) is None:
            raise UsageError(
                f"{named_by}: {name} is not installed; pip install 'pytest-dlperf[{extra}]'"
            )


def protocol(given: Given) -> dict[str, Any]:
    """Return what is given of a protocol, by the names of its fields."""
    fields = {
        "iterations": "iterations",
        "warmup": "warmup",
        "runs": "runs",
        "max_runs": "max-runs",
        "timeout_s": "timeout",
    }
    values = {field: given(option) for field, option in fields.items()}
    return {field: value for field, value in values.items() if value is not None}


def rule(given: Given) -> Rule:
    """Return the rule of the verdicts."""
    values = {
        name.replace("-", "_"): given(name)
        for name in ("tolerance", "min-effect", "alpha", "family")
    }
    return Rule(**{field: value for field, value in values.items() if value is not None})


def place(get: Get, *, workdir: Path, rootdir: Path) -> Place:
    """Return where ranks start."""
    return Place.parse(
        prefix=get("prefix"),
        python=get("python"),
        own_python=sys.executable,
        folders={"workdir": str(workdir), "rootdir": str(rootdir)},
        node_part=NodePart.parse(get("node-rank"), get("master")),
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
        raise UsageError(f"--dlperf-from-logs={folder} is not a directory")
    return folder


def pairs(given: Given, get: Get, getini: Get) -> str:
    """Return how pairs are measured; empty for lock-step where it fits.

    Raises ``UsageError`` where there can be no pairs.
    """
    found: str | None = given("pairs")
    if found and get("against") is None and _confirm(given, getini) == NEVER:
        raise UsageError(
            f"--dlperf-pairs={found} is about pairs, and --dlperf-confirm=never has none; leave "
            "that out, or give --dlperf-against"
        )
    return found or ""


def against(get: Get) -> Arm | None:
    """Return the other arm of an interleaved A/B."""
    if get("against") is None:
        return None
    arm = parse_arm(get("against"), what="--dlperf-against")
    if get("prefix") and arm.kind in {"requirement", "interpreter"}:
        raise UsageError(
            f"--dlperf-against={arm.name}: the environment behind --dlperf-prefix cannot "
            "be changed from here; name a git ref or settings, or judge two images by stored "
            "baselines"
        )
    return arm


def hosts(get: Get, cwd: Path) -> tuple[Host, ...]:
    """Return the hosts that are named, none if there are none."""
    if get("hosts") is None:
        return ()
    return named_hosts(get("hosts"), cwd)


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
    fail_on: FailOn
    #: Whether a case without a verdict fails, whatever ended it.
    strict: bool
    observe: bool
    update: bool
    reason: str
    baselines: Path
    workdir: Path
    rootdir: Path
    #: Folders of pytest's own ini ``pythonpath``, absolute: tests import from them, and ranks too.
    import_folders: tuple[str, ...]
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
    #: Whether the cost of a step is judged, in place of its speed.
    cost: bool
    #: Device that the time of a traced step is predicted for; None for none.
    cost_device: str | None
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
    #: What decides where stored sessions do not: ``pairs``, ``packages`` or ``never``.
    confirm: str
    #: When steps are profiled to explain a verdict; None if nothing was said.
    explain: str | None
    #: What runs the cases as jobs; None where this session runs them.
    scheduling: Scheduling | None

    @property
    def second_stage(self) -> str:
        """What decides where stored sessions do not; nothing where these are not asked."""
        judges_stored = self.against is None and self.from_logs is None and not self.published
        judges_stored = judges_stored and not self.cost
        return self.confirm if judges_stored and not self.runs_nothing else NEVER

    @classmethod
    def from_config(cls, config: pytest.Config) -> Settings:
        """Return the settings of this pytest run; raise ``UsageError`` for an invalid value."""
        return cls.from_options(
            lambda name: config.getoption(f"dlperf_{name.replace('-', '_')}"),
            lambda key: _ini(config, key),
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

        given, workdir = Given(get), path("workdir", ".dlperf")
        if workdir.exists() and not workdir.is_dir():
            raise UsageError(f"--dlperf-workdir={workdir} is not a directory")
        return cls(
            gpus=given("gpus"),
            cpus=given("cpus"),
            size=given("size"),
            frameworks=given("framework"),
            precisions=given("precision"),
            protocol=protocol(given),
            rule=rule(given),
            family_given=get("family") is not None,
            inject=given("inject"),
            budget_s=given("budget"),
            fail_on=FailOn.parse(getini("dlperf_fail_on"), strict=get("strict")),
            strict=get("strict"),
            observe=given("mode") == "observe",
            # A job measures; the session that submitted it stores
            update=get("update-baselines") and get("scheduler") != IN_JOB,
            reason=(get("reason") or "").strip(),
            baselines=path("baselines", "baselines"),
            workdir=workdir,
            rootdir=root,
            import_folders=tuple(map(str, getini("pythonpath"))),
            reports=report_files(get, cwd),
            history=history_wish(get, getini, cwd=cwd, root=root, environ=environ),
            sinks=sinks(given, get),
            resume=_resume(get, cwd),
            data=data(get, cwd),
            machine_class=COST_CLASS
            if get("cost")
            else _machine_class(
                environ.get("DLPERF_MACHINE_CLASS") or getini("dlperf_machine_class")
            ),
            launcher=get("launcher"),
            place=place(get, workdir=workdir, rootdir=root),
            share_host=get("share-host"),
            published=get("published"),
            cost=get("cost"),
            cost_device=_cost_device(given("cost-device"), traces=get("cost")),
            hosts=hosts(get, cwd),
            ssh=get("ssh"),
            rendezvous=given("rendezvous") or "static",
            travelling=given("env") or (),
            from_logs=from_logs(get, cwd),
            list_only=get("list"),
            dry_run=get("dry-run"),
            against=against(get),
            arm_setup=getini("dlperf_arm_setup").strip(),
            arm_links=tuple(getini("dlperf_arm_link")),
            busy_gpus=given("busy-gpus"),
            pairs=pairs(given, get, getini),
            confirm=_confirm(given, getini),
            explain=given("explain"),
            scheduling=Scheduling.parse(get),
        )

    @property
    def runs_nothing(self) -> bool:
        """Whether this session only shows what it would do."""
        return self.list_only or self.dry_run

    def fails(self, outcome: Outcome) -> bool:
        """Whether the test of ``outcome`` fails, by the session's policy."""
        if outcome.against is not None and outcome.against.unaffected:
            return False
        if self.observe:
            return outcome.judgement.verdict is Verdict.ERROR
        return self.gate_fails(outcome.judgement)

    def gate_fails(self, judgement: Judgement) -> bool:
        """Whether a judgement fails a test in gate mode."""
        return self.fail_on.fails(judgement)

    def protocol_for(self, declared: Protocol) -> Protocol:
        """Return ``declared`` with what the command line replaces; raise ``UsageError``."""
        asked = declared.with_asked(self.protocol)
        if self.place.node_part is None:
            return asked
        # All nodes must launch equally often, and only node 0 could see a verdict coming
        return replace(asked, adaptive=False, max_runs=asked.runs)


def _ini(config: pytest.Config, key: str) -> Any:
    """Return the value of an ini key; an empty list for one whose plugin was left out."""
    try:
        return config.getini(key)
    except ValueError:  # -p no:python_path, of pytest 8
        return []


def _confirm(given: Given, getini: Get) -> str:
    found: str = given("confirm") or getini("dlperf_confirm").strip() or "pairs"
    if found not in CONFIRM:
        raise UsageError(f"ini dlperf_confirm: {found!r} is none of {', '.join(CONFIRM)}")
    return found


def _resume(get: Get, cwd: Path) -> Path | None:
    name: str | None = get("resume")
    if name is None:
        return None
    if not name.strip():
        raise UsageError("--dlperf-resume=: name the results file of the session to go on from")
    return cwd / name


def _cost_device(name: str | None, *, traces: bool) -> str | None:
    if name is not None and not traces:
        raise UsageError(
            f"--dlperf-cost-device={name} predicts the time of a traced step; give --dlperf-cost, "
            "too"
        )
    return name


def _machine_class(text: str) -> str | None:
    if text and not re.fullmatch(r"[a-z0-9][a-z0-9.+_-]*", text):
        raise UsageError(
            f"dlperf_machine_class {text!r}: use small letters, digits and . + _ - only, for "
            "instance 8x-v100-sxm2-32gb"
        )
    return text or None
