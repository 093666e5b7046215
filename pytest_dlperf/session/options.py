"""The table of all options, and what else pytest learns at its start: ini keys, our hook.

Every pytest run imports this module, so it imports nothing.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest

    from pytest_dlperf.core.outcome import Outcome

#: Options without our prefix. Many conftest files declare ``--gpus``, and a second declaration
#: would kill pytest: they are never declared, but rewritten where no other plugin declares them.
SHORT_OPTIONS: Final = ("--gpus", "--cpus", "--update-baselines")
#: In place of a metavar: the option takes no value.
FLAG: Final = ""
#: In place of a default: the option can be given several times, and all values count.
REPEATED: Final = ()


class Option:
    """One option ``--dlperf-NAME``: its name, how it is parsed, what it excludes."""

    __slots__ = ("default", "excludes", "help", "metavar", "name", "parse")

    def __init__(
        self,
        name: str,
        metavar: str,
        text: str,
        *,
        parse: str = "text",
        default: str | tuple[()] | None = None,
        excludes: dict[str, str] | None = None,
    ) -> None:
        self.name = name
        #: What the help shows for the value, and for ``choice`` the values; ``FLAG`` without one.
        self.metavar = metavar
        self.help = text
        #: The function of ``option_values.py`` that parses the value.
        self.parse = parse
        self.default = default
        #: Options that cannot be given with it, each with the reason.
        self.excludes = excludes or {}

    @property
    def repeated(self) -> bool:
        """Whether the option can be given several times."""
        return self.default == REPEATED

    @property
    def attribute(self) -> str:
        """Return the name of its value in ``config.option``."""
        return f"dlperf_{self.name.replace('-', '_')}"

    @property
    def unset(self) -> str | bool | list[str] | None:
        """Return its value where it is not given."""
        if self.metavar == FLAG:
            return False
        return [] if isinstance(self.default, tuple) else self.default

    @property
    def shown(self) -> str:
        """Return the option as people type it: the short form where there is one."""
        short = f"--{self.name}"
        return short if short in SHORT_OPTIONS else f"--dlperf-{self.name}"


class ReportOption(Option):
    """An option that names a file which is made of the outcomes."""

    __slots__ = ("module", "title")

    def __init__(self, name: str, text: str, *, title: str, module: str) -> None:
        super().__init__(name, "FILE", text)
        #: What the summary calls the file.
        self.title = title
        #: Below ``pytest_dlperf.report``: its ``render(outcomes)`` returns the text, and its
        #: ``remark(outcomes)``, if it has one, what is not in it.
        self.module = module


#: Every option, in the order of the help. Their texts are parsed in ``option_values.py``, so
#: that a pytest run without a perf case pays nothing for them.
OPTIONS: Final = (
    Option("gpus", "N[,N]", "run at these GPU counts (short form: --gpus)", parse="counts"),
    Option(
        "cpus", "N[,N]", "run with these numbers of CPU processes (short: --cpus)", parse="counts"
    ),
    Option("framework", "NAMES", "only these frameworks, comma separated", parse="frameworks"),
    Option(
        "precision",
        "NAMES",
        "only these precisions, comma separated; bf16 also on a CPU without bf16 instructions",
        parse="precisions",
    ),
    Option("size", "tiny|full", "size of the models (full on GPUs, tiny on CPUs)", parse="choice"),
    Option("iterations", "N", "iterations of a run, warm-up included (150)", parse="whole"),
    Option("warmup", "N", "iterations before the measured window (50)", parse="whole_or_zero"),
    Option("runs", "N", "measure exactly this many runs a case", parse="whole"),
    Option("max-runs", "N", "at most this many runs to confirm a verdict (10)", parse="whole"),
    Option("timeout", "S", "seconds after which a run is ended (1800)", parse="seconds"),
    Option(
        "tolerance", "SHARE", "slowdown up to which a case passes, as 3%% (5%%)", parse="share"
    ),
    Option(
        "min-effect", "SHARE", "a slowdown below this is not a regression (1%%)", parse="share"
    ),
    Option("alpha", "SHARE", "share of unchanged suites with a false alarm (5%%)", parse="share"),
    Option("family", "N", "number of cases that alpha is split over", parse="whole"),
    Option(
        "inject",
        "[GLOB:]SHARE",
        "make measured steps longer by this, to see the gate fail",
        parse="glob_and_share",
        default=REPEATED,
    ),
    Option(
        "selftest",
        "SHARE",
        "store a temporary baseline, measure again, then make steps longer by this: does the "
        "gate see it here? (off)",
    ),
    Option(
        "against",
        "X",
        "judge by pairs of runs, one of X, in place of stored baselines: a git ref, "
        "merge-base:BRANCH, a requirement, an interpreter, or NAME=VALUE",
        excludes={
            "update-baselines": "--update-baselines stores what stored baselines judge, and "
            "pairs of runs need none; measure without an A/B",
            "published": "--dlperf-published judges against published numbers, and pairs of "
            "runs need none",
            "from-logs": "--dlperf-from-logs judges logs, and starts nothing",
            "node-rank": "--dlperf-node-rank starts this node's part alone, and no other node "
            "would know which arm is next, or that there are enough pairs; name the nodes with "
            "--dlperf-hosts",
        },
    ),
    Option(
        "budget",
        "45m",
        "time to measure: what was certified longest ago goes first, and what stays open is "
        "inconclusive",
        parse="duration",
        excludes={
            "node-rank": "all nodes must launch equally often, and only one of them could "
            "know that time is up; give --dlperf-runs"
        },
    ),
    Option(
        "resume",
        "FILE",
        "take what the results file of an interrupted session has finished, and measure the rest",
        excludes={
            "against": "what an arm is may have changed since; measure without --dlperf-resume",
            "from-logs": "--dlperf-from-logs judges logs, and measures nothing",
            "published": "the verdicts in the file are those against this machine's own numbers",
            "node-rank": "the other nodes could not know which cases are left out",
            "scheduler": "the jobs have outcomes of their own; run what is missing with -k",
        },
    ),
    Option("baselines", "DIR", "folder of the baselines (baselines/ at rootdir)"),
    Option("reason", "TEXT", "why what did not pass is stored"),
    Option(
        "mode",
        "gate|observe",
        "observe: nothing but an error fails a test",
        parse="choice",
        default="gate",
    ),
    ReportOption("json", "write the outcomes as JSON", title="results", module="json_"),
    ReportOption(
        "html", "write a page with charts, one file", title="page", module="page.session_page"
    ),
    ReportOption(
        "md",
        "write Markdown for one comment on a pull request",
        title="comment",
        module="pull_request",
    ),
    ReportOption(
        "benchmark-json",
        "write what pytest-benchmark compare and histogram read",
        title="pytest-benchmark",
        module="benchmark_json",
    ),
    ReportOption(
        "metrics",
        "write the figures as OpenMetrics text, for GitLab",
        title="metrics",
        module="open_metrics",
    ),
    Option(
        "history",
        "URL|FILE|off",
        "database that the outcomes are added to (.dlperf/history.sqlite, where the extra "
        "history is installed)",
    ),
    Option(
        "sink",
        "NAME",
        "send the results at the end: webhook, chat, issue, wandb, mlflow, opentelemetry, a sink "
        "of another package; off clears those before it",
        default=REPEATED,
    ),
    Option("workdir", "DIR", "folder of logs and records (.dlperf/ at rootdir)"),
    Option(
        "launcher", "NAME", "start ranks by this launcher, in place of the one that cases name"
    ),
    Option(
        "prefix",
        "COMMAND",
        "put before the launcher's command: a container, numactl ...; {workdir} and {rootdir} "
        "are filled in",
    ),
    Option("python", "PATH", "interpreter of the ranks (python3 behind a prefix)"),
    Option(
        "data",
        "DIR",
        "train on real data in this folder, or in its sub-folder of the suite's name "
        "(synthetic data); behind a prefix, as it is named there",
    ),
    Option("node-rank", "R", "run this node's part of layouts of several nodes"),
    Option(
        "hosts",
        "n1:8,n2:8|FILE",
        "hosts and their devices, or a hostfile",
        excludes={
            "node-rank": "--dlperf-hosts starts the ranks of every node, --dlperf-node-rank "
            "those of this one alone; give one of them"
        },
    ),
    Option(
        "from-logs",
        "DIR",
        "judge logs in this folder in place of training",
        excludes={
            "update-baselines": "--update-baselines stores what was measured, and "
            "--dlperf-from-logs only judges logs"
        },
    ),
    Option("master", "ADDR:PORT", "where the ranks of all nodes meet: on node 0"),
    Option("ssh", "COMMAND", "ssh with options, to reach the hosts (ssh)"),
    Option(
        "rendezvous",
        "static|c10d",
        "how torchrun's nodes meet (static); with c10d whoever reaches its port can run code as "
        "you",
        parse="choice",
    ),
    Option(
        "env",
        "NAMES",
        "variables whose values travel to the ranks of other hosts",
        parse="variables",
    ),
    Option(
        "pairs",
        "lock-step|alternating",
        "of pairs: train both arms at the same time, in turns, or one after the other (lock-step "
        "where both fit, else alternating)",
        parse="choice",
    ),
    Option(
        "confirm",
        "pairs|packages|never",
        "what decides where stored sessions do not: pairs of runs with the code of the stored "
        "session; those, and pairs with its packages; nothing (pairs; ini dlperf_confirm)",
        parse="choice",
    ),
    Option(
        "explain",
        "regressed|always|never",
        "profile steps in further launches, to say what became slower: after a regression, "
        "always, or never (after a regression where before is known: with --dlperf-against, or "
        "by a stored profile)",
        parse="choice",
        excludes={
            "from-logs": "--dlperf-from-logs judges logs, and a profile needs launches",
            "node-rank": "all nodes must launch equally often, and only one of them knows the "
            "verdict",
        },
    ),
    Option(
        "busy-gpus",
        "wait|refuse|ignore",
        "other processes on the GPUs of a case: wait for them, up to its timeout (where they "
        "can be seen), make it an error, or measure all the same",
        parse="choice",
    ),
    Option("scheduler", "slurm", "run each case as a job of this scheduler"),
    Option("jobs", "N", "at most this many jobs in flight (4)"),
    Option("slurm", "WORDS", 'further words for sbatch: "--partition=gpu --time=1:00:00"'),
    Option("queue-timeout", "24h", "cancel a job that has not started after this (24h)"),
    Option(
        "update-baselines",
        FLAG,
        "measure, judge, then write the baselines (short: --update-baselines)",
    ),
    Option("strict", FLAG, "fail cases that were not judged"),
    Option("list", FLAG, "list every case of every size, framework and layout, and run nothing"),
    Option("dry-run", FLAG, "print the commands and their environment, and run nothing"),
    Option(
        "share-host",
        FLAG,
        "do not wait for other cases on this host (a condition of the baseline)",
    ),
    Option(
        "cost",
        FLAG,
        "trace a step of each case as on GPUs, which need not be there, and compare what it asks "
        "for exactly: FLOPs, launches, collectives, memory",
        excludes={
            "cpus": "a cost is that of the case on GPUs; leave --cpus out, or name --gpus",
            "from-logs": "--dlperf-from-logs judges logs, which do not say what a step asks for",
            "published": "published numbers are rates, and a trace has none",
            "inject": "a trace times nothing, so that nothing can be made slower",
            "selftest": "the self-test asks which slowdowns are seen, and a trace times nothing; "
            "a cost is exact",
            "resume": "a trace takes a minute; run those that are missing with -k",
            "explain": "a profile shows where time goes, and a trace names what changed by itself",
            "benchmark-json": "pytest-benchmark compares times, and a trace has none",
            "data": "a trace reads no data",
            "hosts": "a trace is one process on this host, for any number of nodes",
            "node-rank": "a trace is one process on this host, for any number of nodes",
            "scheduler": "a trace needs no device, so that no job has to wait for one",
            "pairs": "a trace of each arm is enough: nothing is timed",
        },
    ),
    Option(
        "cost-device",
        "NAME",
        "predict the time of a traced step on this device by its data sheet, which nobody judges: "
        "h100, h200, a100, a100-40gb, v100",
        parse="cost_device",
    ),
    Option(
        "published",
        FLAG,
        "judge against the published numbers of this machine class",
        excludes={
            "update-baselines": "--update-baselines stores what was judged against this "
            "machine's own numbers, not against published ones; give one of them"
        },
    ),
)


def pytest_dlperf_outcome(outcome: Outcome) -> None:
    """Take a finished case, for instance into a warehouse of one's own.

    Called once a case, in the process that prints the summary; again where a rerun of its test
    comes to another outcome, which replaces the first::

        def pytest_dlperf_outcome(outcome):
            send(outcome.case.id, outcome.judgement.verdict.value)
    """


#: Further headings of the help, each by the option that it is above. pytest compares a new option
#: with all others of its group, so that one group of all would take time in every pytest run.
_HEADINGS: Final = {
    "iterations": "training performance: runs",
    "tolerance": "training performance: verdicts",
    "baselines": "training performance: baselines and reports",
    "launcher": "training performance: where ranks start",
    "scheduler": "training performance: jobs",
    "update-baselines": "training performance: without a value",
}


def flags() -> dict[str, str]:
    """Return the options without a value, with their help."""
    return {option.name: option.help for option in OPTIONS if option.metavar == FLAG}


def declare(parser: pytest.Parser, config: pytest.Config) -> bool:
    """Declare the ini keys, and the options where one may have been given; return if they were.

    Most runs of pytest name none. To declare them costs more than all else that such a run pays
    for this package, so each gets there what pytest would give it: its default.
    """
    add_ini_keys(parser)
    # Set once pytest has read the command line, its variable and the ini file; a plugin that is
    # handed to ``pytest.main`` is asked before that.
    is_read = getattr(config, "known_args_namespace", None) is not None
    given, variable = config.invocation_params.args, os.environ.get("PYTEST_ADDOPTS", "")
    if not is_read or may_be_given(
        [*map(str, given), *variable.split(), *config.getini("addopts")]
    ):
        add_options(parser)
        return True
    for option in OPTIONS:
        # pytest-xdist gives a worker the values of its controller before this.
        if not hasattr(config.option, option.attribute):
            setattr(config.option, option.attribute, option.unset)
    # Not in pytest_private: each run of pytest would import it. ``config.getoption`` knows options
    # by this; of the parser since pytest 9.1.
    owner: Any = config if hasattr(config, "_opt2dest") else parser
    owner._opt2dest.update((f"--dlperf-{o.name}", o.attribute) for o in OPTIONS)
    return False


def may_be_given(words: Iterable[str]) -> bool:
    """Return whether one of ``words`` may be one of ours, a file of them, or ask for help."""
    return any(
        "dlperf" in word
        or word.startswith((*SHORT_OPTIONS, "@", "--help"))
        or ("h" in word and word.startswith("-") and not word.startswith("--"))
        for word in words
    )


def add_options(parser: pytest.Parser) -> None:
    """Declare the long options; the short ones are rewritten to them."""
    group = parser.getgroup("dlperf", "training performance (pytest-dlperf): which cases run")
    # With `dest` given, pytest does not look through all options for another of that name, which
    # was a third of what a declaration costs.
    for option in OPTIONS:
        if option.name in _HEADINGS:
            group = parser.getgroup(f"dlperf-{option.name}", _HEADINGS[option.name])
        keywords: dict[str, Any] = {
            "help": option.help,
            "dest": option.attribute,
            "default": option.unset,
        }
        if option.metavar == FLAG:
            keywords["action"] = "store_true"
        else:
            keywords["metavar"] = option.metavar
            if option.repeated:
                keywords["action"] = "append"
        group.addoption(f"--dlperf-{option.name}", **keywords)


def add_ini_keys(parser: pytest.Parser) -> None:
    """Declare the keys of the ini file."""
    parser.addini(
        "dlperf_fail_on",
        "verdicts, and codes of findings, that fail a test in addition to regressed and error",
        "args",
    )
    parser.addini(
        "dlperf_arm_setup", "command run once in the tree of a ref that --dlperf-against names"
    )
    parser.addini(
        "dlperf_arm_link", "untracked paths that such a tree gets as links to HEAD's", "args"
    )
    parser.addini("dlperf_confirm", "pairs, packages or never, as --dlperf-confirm has it")
    parser.addini(
        "dlperf_github",
        "a summary and annotations where GITHUB_ACTIONS is true (true)",
        "bool",
        default=True,
    )
    parser.addini("dlperf_history", "database that outcomes are added to, or off")
    parser.addini("dlperf_machine_class", "name of this machine's class, instead of the found one")


def rewrite_short(args: list[str], owned: tuple[str, ...]) -> None:
    """Rewrite our short options in ``args`` in place, less those that somebody else owns."""
    end = args.index("--") if "--" in args else len(args)
    for index, argument in enumerate(args[:end]):
        name, equals, value = argument.partition("=")
        if name in SHORT_OPTIONS and name not in owned:
            args[index] = f"--dlperf{name[1:]}{equals}{value}"
