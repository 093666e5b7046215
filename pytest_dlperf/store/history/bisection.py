"""From a change to the commands that settle which commit made it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from pytest_dlperf.core.commit import short_commit
from pytest_dlperf.core.history import Bisection

if TYPE_CHECKING:
    from pytest_dlperf.core.history import Change
    from pytest_dlperf.core.outcome import Outcome


def bisection_of(
    change: Change, outcome: Outcome, *, node_id: str = "", folder: str = ""
) -> Bisection:
    """Return how to bisect ``change``; ``outcome`` is one of its case.

    ``node_id`` is its test as pytest takes it in ``folder``, which is below the top of the
    repository; empty for the outcome's own, and for the top.
    """
    good, bad = change.last_before.commit, change.first_after.commit
    reason = _nothing_to_bisect(change, outcome)
    return Bisection(
        change=change,
        node_id=outcome.node_id,
        good=good,
        bad=bad,
        reason=reason,
        commands=() if reason else _commands(change, outcome, node_id, folder),
    )


def _nothing_to_bisect(change: Change, outcome: Outcome) -> str:
    good, bad = change.last_before.commit, change.first_after.commit
    software = "; ".join(change.software)
    if not good or not bad:
        return "the outcomes beside the change tell no commit: they were measured outside of git"
    if good == bad:
        cause = f"the software changed ({software})" if software else "look at the machine"
        return (
            f"commit {short_commit(good)} has both levels, so no commit made the change: {cause}"
        )
    if not outcome.node_id:
        return "the history does not tell which test measured the case, so nothing can run it"
    return ""


def _commands(change: Change, outcome: Outcome, node_id: str, folder: str) -> tuple[str, ...]:
    good, bad = change.last_before.commit, change.first_after.commit
    faster = change.change > 0
    # By how much the slow level is below the fast one, whichever was first: half of it lies
    # between both
    slower = change.change / (1 + change.change) if faster else -change.change
    step = ["dlperf", "history", "bisect-step"]
    step += [f"--against={bad if faster else good}", f"--limit={50 * slower:.2g}%"]
    step += ["--faster"] if faster else []
    step += [f"--folder={folder}"] if folder else []
    terms = ["--term-old=slow", "--term-new=fast"] if faster else []
    return (
        shlex.join(["git", "bisect", "start", *terms, bad, good]),
        shlex.join(["git", "bisect", "run", *step, "--", *_words(outcome, node_id)]),
        "git bisect reset",
    )


def _words(outcome: Outcome, node_id: str) -> list[str]:
    """Return what pytest is given to measure the case as it was measured."""
    case = outcome.case
    layout, protocol = case.layout, case.protocol
    options = [node_id or outcome.node_id, f"--dlperf-size={case.size}"]
    if layout.nodes == 1:
        options.append(f"--{layout.device}s={layout.devices_per_node}")
    if protocol.declared_window is not None:
        options.append(f"--dlperf-iterations={protocol.iterations}")
        options.append(f"--dlperf-warmup={protocol.warmup}")
    return options
