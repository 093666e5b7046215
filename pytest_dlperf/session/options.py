"""Declares the options; every pytest run imports this module, so that it imports nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pytest

#: Options without our prefix. Many conftest files declare ``--gpus`` themselves, and a second
#: declaration would kill pytest: they are never declared, but rewritten where nobody owns them.
SHORT_OPTIONS: Final = ("--gpus", "--cpus", "--update-baselines")
#: Name, keyword arguments of ``addoption``. Texts are parsed in ``settings.py``, so that a pytest
#: run without a perf case pays nothing for them.
OPTIONS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("gpus", {"metavar": "N[,N]", "help": "run at these GPU counts (short form: --gpus)"}),
    (
        "cpus",
        {"metavar": "N[,N]", "help": "run with these numbers of CPU processes (short: --cpus)"},
    ),
    ("framework", {"metavar": "NAMES", "help": "only these frameworks, comma separated"}),
    (
        "precision",
        {
            "metavar": "NAMES",
            "help": "only these precisions, comma separated; bf16 also on a CPU without bf16 "
            "instructions",
        },
    ),
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
    ("family", {"metavar": "N", "help": "number of cases that alpha is split over"}),
    (
        "inject",
        {
            "metavar": "[GLOB:]SHARE",
            "action": "append",
            "default": [],
            "help": "make measured steps longer by this, to see the gate fail",
        },
    ),
    (
        "selftest",
        {
            "metavar": "SHARE",
            "help": "store a baseline of its own, measure again, then make steps longer by this: "
            "does the gate see it here? (off)",
        },
    ),
    (
        "against",
        {
            "metavar": "X",
            "help": "judge by pairs of runs, one of X, in place of stored baselines: a git ref, "
            "merge-base:BRANCH, a requirement, an interpreter, or NAME=VALUE",
        },
    ),
    (
        "budget",
        {
            "metavar": "45m",
            "help": "time to measure: what was certified longest ago goes first, and what stays "
            "open is inconclusive",
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
    ("html", {"metavar": "FILE", "help": "write a page with charts, one file"}),
    ("md", {"metavar": "FILE", "help": "write Markdown for one comment on a pull request"}),
    (
        "benchmark-json",
        {"metavar": "FILE", "help": "write what pytest-benchmark compare and histogram read"},
    ),
    ("metrics", {"metavar": "FILE", "help": "write the figures as OpenMetrics text, for GitLab"}),
    (
        "history",
        {
            "metavar": "URL|FILE|off",
            "help": "database that the outcomes are added to (.dlperf/history.sqlite, where the "
            "extra history is installed)",
        },
    ),
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
        {"metavar": "n1:8,n2:8|FILE", "help": "hosts and their devices, or a hostfile"},
    ),
    ("from-logs", {"metavar": "DIR", "help": "judge logs in this folder in place of training"}),
    ("master", {"metavar": "ADDR:PORT", "help": "where the ranks of all nodes meet: on node 0"}),
    ("ssh", {"metavar": "COMMAND", "help": "ssh with options, to reach the hosts (ssh)"}),
    (
        "rendezvous",
        {"metavar": "static|c10d", "help": "how torchrun's nodes meet (static)"},
    ),
    (
        "env",
        {"metavar": "NAMES", "help": "variables whose values travel to the ranks of other hosts"},
    ),
    (
        "busy-gpus",
        {
            "metavar": "wait|refuse|ignore",
            "help": "other processes on the GPUs of a case: wait for them, up to its timeout "
            "(where they can be seen), make it an error, or measure beside them",
        },
    ),
    (
        "scheduler",
        {
            "metavar": "slurm|kubernetes",
            "help": "run each case as a job; of Kubernetes, print manifests with --dlperf-dry-run",
        },
    ),
    ("jobs", {"metavar": "N", "help": "at most this many jobs in flight (4)"}),
    (
        "slurm",
        {"metavar": "WORDS", "help": 'further words for sbatch: "--partition=gpu --time=1:00:00"'},
    ),
    (
        "queue-timeout",
        {"metavar": "24h", "help": "cancel a job that has not started after this (24h)"},
    ),
    ("image", {"metavar": "IMAGE", "help": "image of the containers in manifests"}),
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
    # With `dest` given, pytest does not look through all options for another of that name, which
    # was a third of what a declaration costs.
    for name, keywords in OPTIONS:
        group.addoption(f"--dlperf-{name}", dest=_attribute(name), **keywords)
    for name, text in FLAGS:
        group.addoption(f"--dlperf-{name}", dest=_attribute(name), action="store_true", help=text)
    parser.addini(
        "dlperf_fail_on", "verdicts that fail a test, beside regressed and error", "args"
    )
    parser.addini(
        "dlperf_arm_setup", "command run once in the tree of a ref that --dlperf-against names"
    )
    parser.addini(
        "dlperf_arm_link", "untracked paths that such a tree gets as links to HEAD's", "args"
    )
    parser.addini(
        "dlperf_github",
        "a summary and annotations where GITHUB_ACTIONS is true (true)",
        "bool",
        default=True,
    )
    parser.addini("dlperf_history", "database that outcomes are added to, or off")
    parser.addini("dlperf_machine_class", "name of this machine's class, instead of the found one")


def _attribute(name: str) -> str:
    return f"dlperf_{name.replace('-', '_')}"


def has_short(args: list[str]) -> bool:
    """Return whether one of ``args`` may be a short option."""
    return any(argument.startswith(SHORT_OPTIONS) for argument in args)


def rewrite_short(args: list[str], owned: tuple[str, ...]) -> None:
    """Rewrite our short options in ``args`` in place, less those that somebody else owns."""
    end = args.index("--") if "--" in args else len(args)
    for index, argument in enumerate(args[:end]):
        name, equals, value = argument.partition("=")
        if name in SHORT_OPTIONS and name not in owned:
            args[index] = f"--dlperf{name[1:]}{equals}{value}"
