"""What a command line, an ini file and the environment are to a session."""

from __future__ import annotations

import shlex
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from pytest_dlperf.core.arm import RefArm
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.frameworks import FRAMEWORKS
from pytest_dlperf.core.place import IN_JOB, Host, NodePart
from pytest_dlperf.core.protocol import Protocol
from pytest_dlperf.core.verdict import BAD, NOT_JUDGED, Rule, Verdict
from pytest_dlperf.session import options
from pytest_dlperf.session.fail_on import FailOn
from pytest_dlperf.session.option_values import REPORTS
from tests.helpers.given_options import settings_of

#: What a flag is for, or an option without a default of its own, where nothing is given.
DEFAULTS = {
    option.name: [] if option.repeated else option.default
    for option in options.OPTIONS
    if option.metavar != options.FLAG
}
#: Options that one field of ``Settings`` of the same name has as they are.
AS_GIVEN = ("launcher", "ssh", "share-host", "published")


def test_without_options_a_setting_is_what_is_declared(tmp_path: Path):
    settings = settings_of(folder=tmp_path)
    values = {field.name: getattr(settings, field.name) for field in fields(settings)}
    flags = options.flags()
    for name in AS_GIVEN:
        expected = False if name in flags else DEFAULTS[name]
        assert values[name.replace("-", "_")] == expected, name
    for name in ("gpus", "cpus", "size", "frameworks", "budget_s", "data", "machine_class",
                 "from_logs", "against", "busy_gpus", "explain", "scheduling"):  # fmt: skip
        assert values[name] is None, name
    assert settings.inject == tuple(DEFAULTS["inject"])
    assert settings.observe is (DEFAULTS["mode"] == "observe")
    assert (settings.hosts, settings.travelling, settings.arm_links) == ((), (), ())
    assert settings.reports == {}
    assert (settings.arm_setup, settings.reason) == ("", "")
    assert not settings.update
    assert not settings.runs_nothing
    assert not settings.family_given
    assert settings.rule == Rule()
    assert settings.protocol_for(Protocol()) == Protocol()
    assert settings.fail_on == FailOn(verdicts=BAD)
    assert settings.rendezvous == "static"
    assert settings.place.node_part is None
    assert not settings.place.foreign
    assert settings.rootdir == tmp_path


#: For each option a value that is not its default, and what a session then has.
GIVEN: dict[str, tuple[str, Any]] = {
    "gpus": ("8,1,8", lambda s: s.gpus == (8, 1)),
    "cpus": ("2", lambda s: s.cpus == (2,)),
    "framework": ("torch, paddle", lambda s: s.frameworks == ("torch", "paddle")),
    "pairs": ("alternating", lambda s: s.pairs == "alternating"),
    "confirm": ("never", lambda s: s.confirm == s.second_stage == "never"),
    "precision": ("fp32,bf16", lambda s: s.precisions == ("fp32", "bf16")),
    "size": ("tiny", lambda s: s.size == "tiny"),
    "iterations": ("100", lambda s: s.protocol_for(Protocol()).iterations == 100),
    "warmup": ("0", lambda s: s.protocol == {"warmup": 0}),
    "runs": ("3", lambda s: s.protocol_for(Protocol()).max_runs == 3),
    "max-runs": ("3", lambda s: s.protocol_for(Protocol()).runs == 3),
    "timeout": ("2.5", lambda s: s.protocol_for(Protocol()).timeout_s == 2.5),
    "tolerance": ("3%", lambda s: s.rule.tolerance == 0.03),
    "min-effect": ("0.02", lambda s: s.rule.min_effect == 0.02),
    "alpha": ("1%", lambda s: s.rule.alpha == 0.01),
    "family": ("7", lambda s: s.rule.family == 7 and s.family_given),
    "inject": ("*-1n2c:5%", lambda s: s.inject == (("*-1n2c", 0.05),)),
    "against": ("HEAD~1", lambda s: s.against == RefArm(ref="HEAD~1")),
    "budget": ("45m", lambda s: s.budget_s == 2700),
    "baselines": ("b", lambda s: s.baselines == s.rootdir / "b"),
    "reason": (" why ", lambda s: s.reason == "why"),
    "mode": ("observe", lambda s: s.observe),
    **{
        name: ("f", lambda s, name=name: s.reports == {name: s.rootdir / "f"}) for name in REPORTS
    },
    "history": ("off", lambda s: s.history is None),
    "sink": ("chat", lambda s: s.sinks == ("chat",)),
    "resume": ("r.json", lambda s: s.resume == s.rootdir / "r.json"),
    "workdir": ("w", lambda s: s.workdir == s.rootdir / "w"),
    "launcher": ("mpirun", lambda s: s.launcher == "mpirun"),
    "prefix": (
        "box {workdir}", lambda s: s.place.prefix == ("box", str(s.rootdir / ".dlperf"))
    ),
    "python": ("/other", lambda s: s.place.python == "/other"),
    "data": ("d", lambda s: s.data == str((s.rootdir / "d").resolve())),
    "hosts": ("n1:8", lambda s: s.hosts == (Host(name="n1", devices=8),)),
    "from-logs": (".", lambda s: s.from_logs == s.rootdir),
    "ssh": ("ssh -F f", lambda s: s.ssh == "ssh -F f"),
    "rendezvous": ("c10d", lambda s: s.rendezvous == "c10d"),
    "env": ("A, B", lambda s: s.travelling == ("A", "B")),
    "busy-gpus": ("refuse", lambda s: s.busy_gpus == "refuse"),
    "scheduler": (IN_JOB, lambda s: s.scheduling is None),
    "update-baselines": ("", lambda s: s.update),
    "strict": ("", lambda s: s.fail_on.verdicts == BAD | NOT_JUDGED),
    "list": ("", lambda s: s.list_only and s.runs_nothing),
    "dry-run": ("", lambda s: s.dry_run and s.runs_nothing),
    "share-host": ("", lambda s: s.share_host),
    "published": ("", lambda s: s.published),
    "cost": ("", lambda s: s.cost and s.machine_class == "cost" and s.second_stage == "never"),
}  # fmt: skip
#: Options that say nothing without another one.
TOGETHER: dict[str, tuple[tuple[str, ...], Any]] = {
    "cost-device": (
        ("--dlperf-cost", "--dlperf-cost-device=h100"),
        lambda s: s.cost_device == "h100",
    ),
    "explain": (("--dlperf-explain=always",), lambda s: s.explain == "always"),
    "node-rank": (
        ("--dlperf-node-rank=1", "--dlperf-master=a:1"),
        lambda s: (
            s.place.node_part == NodePart(node_rank=1, master_addr="a", master_port=1)
            and not s.protocol_for(Protocol()).adaptive
        ),
    ),
    "master": (
        ("--dlperf-node-rank=0", "--dlperf-master=b:2"),
        lambda s: (s.place.node_part.master_addr, s.place.node_part.master_port) == ("b", 2),
    ),
    **{
        name: ((f"--dlperf-{name}={value}", "--dlperf-scheduler=slurm"), holds)
        for name, value, holds in (
            ("jobs", "2", lambda s: s.scheduling.jobs == 2),
            ("slurm", "--partition='a b'", lambda s: s.scheduling.words == ("--partition=a b",)),
            ("queue-timeout", "2h", lambda s: s.scheduling.queue_timeout_s == 7200),
        )
    },
}


def test_every_option_is_given_here():
    every = {*DEFAULTS, *options.flags()}
    # It starts sessions, of which it is no setting: test_selftest_options.py
    assert every - {"selftest"} == {*GIVEN, *TOGETHER}


@pytest.mark.parametrize("name", GIVEN)
def test_an_option_reaches_its_setting(tmp_path: Path, name: str):
    value, holds = GIVEN[name]
    assert not holds(settings_of(folder=tmp_path)) or name in {"history", "scheduler"}
    assert holds(settings_of(f"--dlperf-{name}{value and '='}{value}", folder=tmp_path))


@pytest.mark.parametrize("name", TOGETHER)
def test_options_reach_their_setting_together(tmp_path: Path, name: str):
    given, holds = TOGETHER[name]
    assert holds(settings_of(*given, folder=tmp_path))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--dlperf-cost", "--dlperf-cost-device=tpu"), "its rates are not known; known are h100"),
        (("--dlperf-cost-device=h100",), "give --dlperf-cost, too"),
    ],
)
def test_a_device_that_nothing_is_predicted_for_is_refused(
    tmp_path: Path, given: tuple[str, ...], words: str
):
    with pytest.raises(UsageError, match=words):
        settings_of(*given, folder=tmp_path)


def test_a_job_stores_nothing(tmp_path: Path):
    given = ("--update-baselines", f"--dlperf-scheduler={IN_JOB}")
    assert not settings_of(*given, folder=tmp_path).update


def test_the_ini_file_and_the_environment(tmp_path: Path):
    ini = {
        "dlperf_fail_on": ["inconclusive", "machine-moved"],
        "dlperf_machine_class": "of-ini",
        "dlperf_arm_setup": " make ",
        "dlperf_arm_link": ["data"],
    }
    settings = settings_of(folder=tmp_path, ini=ini)
    assert settings.fail_on.verdicts == BAD | {Verdict.INCONCLUSIVE}
    assert settings.fail_on.codes == {"machine-moved"}
    assert (settings.arm_setup, settings.arm_links) == ("make", ("data",))
    assert settings.machine_class == "of-ini"
    environ = {"DLPERF_MACHINE_CLASS": "of-environment"}
    assert settings_of(folder=tmp_path, ini=ini, environ=environ).machine_class == "of-environment"


KNOWN_SIZES = "known are tiny, full"
KNOWN_FRAMEWORKS = f"known are {', '.join(FRAMEWORKS)}"
SLURM = "--dlperf-scheduler=slurm"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("--gpus=0", "--gpus=0: give a whole number, 1 or more"),
        ("--gpus=eight", "--gpus=eight"),
        ("--gpus=1,,2", "--gpus="),
        ("--cpus=-1", "--cpus=-1"),
        ("--dlperf-size=huge", KNOWN_SIZES),
        ("--dlperf-framework=mxnet", KNOWN_FRAMEWORKS),
        ("--dlperf-precision=fp16", "known are fp32, tf32, amp, bf16, pure_fp16, fp8"),
        ("--dlperf-tolerance=x", "--dlperf-tolerance: 'x' is not a number"),
        ("--dlperf-tolerance=5", "write 5% instead"),
        ("--dlperf-inject=abc", "--dlperf-inject"),
        ("--dlperf-mode=maybe", "known are gate, observe"),
        ("--dlperf-strict --dlperf-mode=observe", "leave one of them out"),
        ("--dlperf-runs=0", "--dlperf-runs=0"),
        ("--dlperf-timeout=0", "seconds above 0"),
        ("--dlperf-alpha=0", "alpha 0"),
        ("--dlperf-alpha=500%", "must be below 100 %"),
        ("--dlperf-tolerance=200%", "must be below 100 %"),
        ("--dlperf-min-effect=100%", "must be below 100 %"),
        ("--dlperf-baselines=file", "is not a directory"),
        ("--dlperf-workdir=file", "is not a directory"),
        ("--dlperf-json=file/r.json", "cannot be written"),
        ("--dlperf-hosts=n1:8,n1:8", "n1 is listed twice"),
        ("--dlperf-hosts=n1", "is not a host with its devices"),
        ("--dlperf-hosts=n1:8;reboot", "is not a host with its devices"),
        ("--dlperf-rendezvous=etcd", "known are static, c10d"),
        ("--dlperf-env=A=b", "give names alone"),
        (
            "--dlperf-pairs=lock-step --dlperf-confirm=never",
            "--dlperf-pairs=lock-step is about pairs",
        ),
        ("--dlperf-explain=yes", "--dlperf-explain=yes: known are regressed, always, never"),
        ("--dlperf-pairs=both", "--dlperf-pairs=both: known are lock-step, alternating"),
        ("--dlperf-busy-gpus=kill", "--dlperf-busy-gpus=kill: known are wait, refuse, ignore"),
        ("--dlperf-html=r --dlperf-md=./r", "--dlperf-html and --dlperf-md name one file"),
        ("--dlperf-published --update-baselines", "give one of them"),
        ("--dlperf-list -n2", "leave -n out"),
        # The other arm of pairs
        ("--dlperf-against=", "it is empty; give X"),
        ("--dlperf-json=", "it is empty; give FILE"),
        ("--dlperf-workdir=", "it is empty; give DIR"),
        ("--dlperf-against=--force", "not an arm"),
        ("'--dlperf-against=A=1 B'", "'B' does not set a variable"),
        ("--dlperf-against=PYTHONPATH=x", "is set for the ranks by this tool"),
        ("--dlperf-against=HEAD --update-baselines", "--update-baselines stores"),
        ("--dlperf-against=HEAD --dlperf-published", "--dlperf-published judges"),
        ("--dlperf-against=torch==2.1 --dlperf-prefix=box", "cannot be changed from here"),
        # Time
        ("--dlperf-budget=45", "--dlperf-budget: '45' is not a duration; write 45m"),
        ("--dlperf-budget=-5m", "is not a duration"),
        ("--dlperf-budget=5m --dlperf-node-rank=0 --dlperf-master=h:1", "launch equally"),
        # Logs
        ("--dlperf-from-logs=nowhere", "is not a directory"),
        ("--dlperf-from-logs=. --update-baselines", "only judges logs"),
        # Where ranks start
        ('"--dlperf-prefix=docker \'run"', "No closing quotation"),
        ("--dlperf-node-rank=1", "belong together"),
        ("--dlperf-master=a:1", "belong together"),
        ("--dlperf-node-rank=x --dlperf-master=a:1", "counted from 0"),
        ("--dlperf-node-rank=0 --dlperf-master=10.0.0.1", "node 0's address and a free port"),
        ("--dlperf-node-rank=0 --dlperf-master=a:70000", "node 0's address and a free port"),
        ("--dlperf-node-rank=0 --dlperf-master=a:1 -n2", "leave -n out"),
        ("--dlperf-node-rank=0 --dlperf-master=a:1 --dlperf-hosts=n1:8", "give one of them"),
        # Jobs
        ("--dlperf-scheduler=lsf", "known is slurm"),
        ("--dlperf-jobs=2", "name their scheduler with --dlperf-scheduler"),
        (f"{SLURM} --dlperf-jobs=0", "--dlperf-jobs=0: give a whole number"),
        (f'{SLURM} "--dlperf-slurm=\'x"', "No closing quotation"),
        (f"{SLURM} --dlperf-queue-timeout=5", "'5' is not a duration"),
        (f"{SLURM} --dlperf-budget=5m", "jobs run at once"),
        (f"{SLURM} -n2", "leave -n of pytest-xdist out"),
        ("--dlperf-scheduler=kubernetes", "known is slurm"),
    ],
)
def test_what_cannot_be_meant(tmp_path: Path, given: str, message: str):
    (tmp_path / "file").touch()
    words = shlex.split(given)
    processes = 2 if "-n2" in words else None
    arguments = [word for word in words if word != "-n2"]
    with pytest.raises(UsageError) as caught:
        settings_of(*arguments, folder=tmp_path, processes=processes)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"), [("dlperf_fail_on", ["garbage"]), ("dlperf_machine_class", "A b/c")]
)
def test_an_ini_file_that_cannot_be_meant(tmp_path: Path, key: str, value: object):
    with pytest.raises(UsageError, match=key):
        settings_of(folder=tmp_path, ini={key: value})


def test_a_prefix_that_is_no_command_is_not_repeated(tmp_path: Path):
    with pytest.raises(UsageError, match="No closing quotation") as caught:
        settings_of("--dlperf-prefix=env TOKEN=hunter3-in-the-prefix 'box", folder=tmp_path)
    assert "hunter3" not in str(caught.value)
