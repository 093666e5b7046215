"""The codes of findings: what each means, how it weighs, its figures, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from pytest_dlperf.core.finding import BUDGET_SPENT, Weight


class CodeMeaning(NamedTuple):
    """What a code of a finding means."""

    #: The weights that it may have, the usual one first.
    weights: tuple[Weight, ...]
    meaning: str
    remedy: str
    #: Names of its figures, beside those of ``COMPARED`` where ``is_compared``.
    figures: tuple[str, ...] = ()
    is_compared: bool = False
    has_metric: bool = False


#: Figures of a comparison of one metric; those that are not known are absent.
COMPARED: Final = (
    "kind", "change", "low", "high", "before", "now", "tolerance", "sees", "runs_needed",
)  # fmt: skip
_NOTE: Final = (Weight.NOTE,)
_RATE: Final = (
    "unit", "against", "than", "certain", "provisional", "min_effect", "alpha", "adaptive",
    "runs", "run_s", "by_median", "in_turns", "why_so_wide",
)  # fmt: skip
_COST: Final = (
    "against", "before", "now", "increase", "change", "allowed", "dtype", "rank", "path", "phase",
    "what", "calls_before", "calls_now", "layers",
)  # fmt: skip
_FIND: Final = "find what changed, or accept the new level"
_AGAIN: Final = "measure again when the machine is as before, or side by side"
_NOTHING: Final = "nothing"

CODES: Final[Mapping[str, CodeMeaning]] = {
    # The training
    "training-failed": CodeMeaning(
        (Weight.ERROR,), "a log says that its training failed", "mend the training", ("says",)
    ),
    "loss-differs": CodeMeaning(
        (Weight.ERROR,),
        "fast but wrong: the loss falls otherwise than in the stored sessions",
        "look at labels, learning rate and averaging of gradients; raise the case's version if "
        "the training was changed on purpose",
        ("run", "fall", "whose", "before", "low", "high"),
    ),
    # What is compared
    "work-unchecked": CodeMeaning(
        (Weight.DIFFERENT,),
        "nothing shows that the declared work was done",
        "make the check possible, see the problems of the measurement",
        ("kind", "text"),
    ),
    "conditions-differ": CodeMeaning(
        (Weight.DIFFERENT,),
        "both sides were not measured under the same conditions",
        "restore the conditions, or accept the new ones",
        ("kind", "first", "count", "fields"),
    ),
    "nothing-stored": CodeMeaning(
        (Weight.UNSTORED,),
        "there is no stored session to compare with",
        "store one with `--update-baselines`",
        ("kind",),
    ),
    # The machine and the runs
    "disturbed": CodeMeaning(
        (Weight.MACHINE,),
        "others used the machine, in every repetition of a run",
        "compare in pairs with `--dlperf-against=main`, or measure again when the machine is "
        "quiet",
        ("text",),
    ),
    "machine-moved": CodeMeaning(
        (Weight.MACHINE,),
        "the machine itself is slower or faster than with the stored sessions, by enough to "
        "explain the change",
        _AGAIN,
        ("canary", "shift", "node"),
    ),
    "machine-explains-nothing": CodeMeaning(
        _NOTE,
        "the machine changed, and that does not explain the change",
        _NOTHING,
        ("canary", "shift", "node"),
    ),
    "links-slower": CodeMeaning(
        _NOTE,
        "the canary's all-reduce became slower, and nothing else of the machine did",
        "look at the links, and at the library that drives them",
        ("shift",),
    ),
    "unsteady": CodeMeaning(
        (Weight.DOUBT,),
        "the runs drift, vary or contradict themselves",
        "look at their records, and measure again",
        ("kind", "text"),
    ),
    "estimators-disagree": CodeMeaning(
        (Weight.DOUBT,),
        "rates of the same runs, computed by different rules, disagree about the change",
        "look at the records of the runs, and measure again",
        ("changes", "stretch", "unit", "against"),
        is_compared=True,
    ),
    # The throughput
    "slower": CodeMeaning(
        (Weight.RED,), "the throughput certainly fell", _FIND, _RATE, is_compared=True
    ),
    "undecided": CodeMeaning(
        (Weight.OPEN,),
        "the throughput is neither certainly within its tolerance nor certainly lower",
        "allow more runs, a larger tolerance, or measure side by side",
        _RATE,
        is_compared=True,
    ),
    "within-tolerance": CodeMeaning(
        (Weight.GREEN,),
        "the throughput is certified within its tolerance",
        _NOTHING,
        _RATE,
        is_compared=True,
    ),
    "faster": CodeMeaning(
        (Weight.BETTER,),
        "the throughput certainly rose",
        "store the new level with `--update-baselines`",
        _RATE,
        is_compared=True,
    ),
    # Other metrics
    "worse": CodeMeaning(
        (Weight.RED, Weight.FACT),
        "a metric beside the throughput certainly got worse",
        _FIND,
        ("unit", "is_count", "why"),
        is_compared=True,
        has_metric=True,
    ),
    "open": CodeMeaning(
        (Weight.OPEN,),
        "a metric beside the throughput is neither certified nor certainly worse",
        "allow more pairs, or more in `metrics` of the marker",
        ("unit", "is_count", "runs", "run_s", "adaptive"),
        is_compared=True,
        has_metric=True,
    ),
    "excused": CodeMeaning(
        _NOTE,
        "a metric got worse, and something else that got better makes up for it",
        _NOTHING,
        ("parent_change", "parent"),
        is_compared=True,
        has_metric=True,
    ),
    "not-judged": CodeMeaning(
        _NOTE,
        "a metric that the case gates was not compared",
        "store a session that has it, or report it",
        ("lacks", "kind", "over", "stored_over"),
        has_metric=True,
    ),
    "metrics-not-logged": CodeMeaning(
        _NOTE, "logs do not have the metrics of the case", _NOTHING, ("metrics",)
    ),
    # The cost of a step
    "costs-more": CodeMeaning(
        (Weight.FACT, Weight.NOTE),
        "a step asks for more of a figure of its cost; a note where its allowance is not passed",
        "find what changed at the module that it names, or accept it",
        _COST,
        has_metric=True,
    ),
    "costs-less": CodeMeaning(
        (Weight.BETTER,),
        "a step asks for less of a figure of its cost",
        "store the lower cost with `--update-baselines`",
        _COST,
        has_metric=True,
    ),
    "costs-same": CodeMeaning(
        (Weight.GREEN,),
        "no figure of the cost differs by more than its allowance",
        _NOTHING,
        ("against", "is_allowed"),
    ),
    # Which stage decided
    "pairs-decided": CodeMeaning(
        _NOTE,
        "pairs of runs with the code of the stored session decided",
        "as the other codes say",
        (
            "seen", "against", "beside", "verdict", "machine_did_the_rest", "kind", "runs_needed",
            "adaptive", "decided_by",
        ),
    ),
    "environment-changed": CodeMeaning(
        _NOTE,
        "the code is not slower; what else changed since the stored session may be",
        "accept the new environment, or measure it with `--dlperf-confirm=packages`",
        ("seen", "environment", "measured_by", "packages", "beside", "decided_by"),
    ),
    "packages-unknown": CodeMeaning(
        (Weight.NOTE, Weight.DIFFERENT),
        "the code is not slower, and what packages the stored session had is not known",
        "accept the new level",
        ("seen", "unknown", "decided_by"),
    ),
    "packages-decided": CodeMeaning(
        _NOTE,
        "pairs of runs with the packages of the stored session decided",
        "install the packages of before, or accept the new level",
        ("seen", "seen_by_stored", "packages", "beside", "verdict", "undo", "decided_by"),
    ),
    "packages-undecided": CodeMeaning(
        _NOTE,
        "packages make the case slower, and which of them is not known",
        "run `dlperf bisect-environment`",
        ("text",),
    ),
    "same-code": CodeMeaning(
        (Weight.GREEN,),
        "code and packages are those of the stored session, so that nothing of them is slower",
        "look at the machine and its settings where stored sessions saw a change",
        ("seen", "against", "machine_did_it"),
    ),
    "equal-code": CodeMeaning(
        _NOTE, "no file that ranks import differs from the stored session's", _NOTHING, ("text",)
    ),
    "equal-arms": CodeMeaning(
        (Weight.NOTE, Weight.NOT_RUN),
        "nothing shows that both arms of the pairs differ",
        "name the code, package or variable that is to be compared",
        ("text", "says"),
    ),
    "no-pairs": CodeMeaning(
        _NOTE,
        "pairs were to decide and could not be run",
        "as its text says; often the commit is missing in a shallow clone",
        ("text", "is_detail"),
    ),
    "no-pairs-with-anchor": CodeMeaning(
        _NOTE, "no pairs with the anchor could be run", "as its text says", ("text",)
    ),
    "no-pairs-with-packages": CodeMeaning(
        _NOTE,
        "no pairs with the packages of the stored session could be run",
        "as its text says",
        ("text",),
    ),
    "arm-failed": CodeMeaning(_NOTE, "the other arm failed", "as its text says", ("text",)),
    "below-anchor": CodeMeaning(
        _NOTE,
        "the last levels are below the anchor",
        "`dlperf baselines accept --anchor` where that is right",
    ),
    # The session
    BUDGET_SPENT: CodeMeaning(
        (Weight.OPEN, Weight.NOTE),
        "`--dlperf-budget` left no time for the runs that would decide or confirm",
        "run it again, or raise `--dlperf-budget`",
        ("budget", "before_confirmed", "unconfirmed"),
    ),
    "never-measured": CodeMeaning(
        (Weight.OPEN,),
        "`--dlperf-budget` left no time for any run",
        "run it again, it runs first; or raise `--dlperf-budget`",
        ("says",),
    ),
    "known-slowdown": CodeMeaning(
        _NOTE,
        "the marker declares a slowdown as known; its state is `judgement.known`",
        "as its state says",
        ("state", "issue", "known_change", "until", "others"),
    ),
    "stored": CodeMeaning(
        (Weight.STORED, Weight.NOTE), "the baseline was written", _NOTHING, ("text",)
    ),
    "not-stored": CodeMeaning(
        _NOTE, "the baseline was not written", "as its text says", ("text",)
    ),
    "measured-again": CodeMeaning(
        _NOTE,
        "`--dlperf-resume` did not take what the ended session had of the case",
        _NOTHING,
        ("text",),
    ),
    "variables-differ": CodeMeaning(
        _NOTE,
        "variables of the environment are not those of the stored session",
        "restore them if they explain a change",
        ("text",),
    ),
    "not-recorded": CodeMeaning(
        _NOTE, "a part of what surrounds the verdict could not be read", "as its text says",
        ("text",),
    ),
    # What else is known of a change
    "explained": CodeMeaning(
        _NOTE, "profiles show what a step spends its time on", "as its text says", ("text",)
    ),
    "devices-wait": CodeMeaning(
        _NOTE, "what devices wait for, where the throughput fell", "as its text says", ("text",)
    ),
    "data-wait": CodeMeaning(
        _NOTE,
        "waiting for data explains most of a slowdown, by the logs",
        "look at the input pipeline",
        ("text",),
    ),
    "not-reported": CodeMeaning(
        _NOTE, "a log does not report some conditions, which were not compared", _NOTHING,
        ("text",),
    ),
    "same-files": CodeMeaning(
        _NOTE, "a file is on both sides", "name two files", ("text",)
    ),
    "looked-in": CodeMeaning(
        _NOTE, "where baselines were looked for", _NOTHING, ("folder",)
    ),
}  # fmt: skip
#: Weights that nobody wants to fail: notes, what is good, and arms that do not differ.
_NEVER_FAILING: Final = frozenset(
    {Weight.NOTE, Weight.NOT_RUN, Weight.STORED, Weight.BETTER, Weight.GREEN}
)
#: The codes that ``dlperf_fail_on`` takes.
MAY_FAIL: Final = frozenset(
    code for code, meaning in CODES.items() if set(meaning.weights) - _NEVER_FAILING
)
