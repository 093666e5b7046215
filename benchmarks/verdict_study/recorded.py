"""Recorded CPU training: four runs a round, two unchanged and two with extra work."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from verdict_study.data import CASES, MOST_RUNS, STORED_RUNS, CaseData

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pytest_dlperf.core.layout import DeviceKind
    from verdict_rules.peer import Seconds

#: Iterations of a run that the harness leaves out.
_WARM_UP: Final = 50
#: Stored sessions at most: those next to the session on trial.
_MOST_SESSIONS: Final = 5
_ARMS: Final = (0.0, 0.03, 0.05)
#: The runs of one round: two unchanged ones, and one of each slower arm.
Round: TypeAlias = "Mapping[float, list[Seconds]]"


@dataclass(frozen=True, kw_only=True, slots=True)
class Recording:
    """One recording. Slowdowns are extra work, so 3 % more is 2.9 % of throughput lost.

    On trial are 10 rounds in a row, from which one arm is taken; a stored baseline is made of
    the unchanged runs of all other rounds, in sessions of 5 runs that follow each other. Pairs
    are of one round each. What is drawn for a case: which rounds are on trial, their order, and
    which of the two unchanged runs of a round is which arm.
    """

    name: str
    title: str
    rounds: tuple[Round, ...]
    #: Unchanged runs that precede all rounds.
    earlier: tuple[Seconds, ...] = ()
    truths: tuple[float, ...] = _ARMS
    has_iterations: bool = True
    device: DeviceKind = "cpu"

    def suite(self, rng: np.random.Generator) -> tuple[CaseData, ...]:
        """Return 24 cases. They share runs, so that they are less apart than real cases are."""
        return tuple(self._case(rng) for _ in range(CASES))

    def _case(self, rng: np.random.Generator) -> CaseData:
        first = int(rng.integers(len(self.rounds) - MOST_RUNS + 1))
        order = first + rng.permutation(MOST_RUNS)
        trial = [self.rounds[index] for index in order]
        which = rng.integers(2, size=MOST_RUNS)
        before = np.stack([arms[0.0][pick] for arms, pick in zip(trial, which, strict=True)])
        other_run = np.stack(
            [arms[0.0][1 - pick] for arms, pick in zip(trial, which, strict=True)]
        )
        after = {0.0: other_run} | {
            arm: np.stack([arms[arm][0] for arms in trial]) for arm in _ARMS[1:]
        }
        history = self._history(first)
        return CaseData(
            history=tuple(history[index] for index in rng.permutation(len(history))),
            now=after,
            before=dict.fromkeys(_ARMS, before),
            after=after,
        )

    def _history(self, first: int) -> tuple[Seconds, ...]:
        ahead = [*self.earlier, *_unchanged(self.rounds[:first])]
        behind = _unchanged(self.rounds[first + MOST_RUNS :])
        # Those nearest to the trial: the last ones ahead of it, the first ones behind it.
        sessions = [*reversed(_sessions(ahead)), *_sessions(behind)]
        return tuple(sessions[:_MOST_SESSIONS])


def _unchanged(rounds: tuple[Round, ...]) -> list[Seconds]:
    return [run for one in rounds for run in one[0.0]]


def _sessions(runs: list[Seconds]) -> list[Seconds]:
    cuts = range(len(runs) % STORED_RUNS, len(runs) + 1, STORED_RUNS)
    return [np.stack(runs[start:end]) for start, end in pairwise(cuts)]


def _whole(rounds: Mapping[int, dict[float, list[Seconds]]]) -> tuple[Round, ...]:
    in_order = (arms for _, arms in sorted(rounds.items()))
    return tuple(
        arms for arms in in_order if [len(arms.get(arm, ())) for arm in _ARMS] == [2, 1, 1]
    )


def _numpy_training(path: Path) -> tuple[Round, ...]:
    rounds: dict[int, dict[float, list[Seconds]]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        run = json.loads(line)
        arms = rounds.setdefault(run["round"], {})
        arms.setdefault(float(run["slow"]), []).append(np.array(run["it"][_WARM_UP:]))
    return _whole(rounds)


def _torch_training(folder: Path) -> tuple[tuple[Seconds, ...], tuple[Round, ...]]:
    """Return the runs of the first phase, one after the other, and the rounds of the second."""
    earlier: list[Seconds] = []
    rounds: dict[int, dict[float, list[Seconds]]] = {}
    for path in sorted(folder.glob("*.r0.json")):
        ranks = [path, path.with_name(path.name.replace(".r0.", ".r1."))]
        records = [json.loads(rank.read_text(encoding="utf-8")) for rank in ranks]
        # Ranks wait for each other: an iteration is as long as that of the slowest.
        run = np.max([record["per"][_WARM_UP:] for record in records], axis=0)
        if "_seqA_" in path.name:
            earlier.append(run)
            continue
        index = (int(path.name[:3]) - len(earlier) - 1) // 4
        rounds.setdefault(index, {}).setdefault(records[0]["inject"], []).append(run)
    return tuple(earlier), _whole(rounds)


def recordings(noise: Path) -> tuple[Recording, ...]:
    """Return the recordings of a folder of recorded noise."""
    earlier, rounds = _torch_training(noise / "torch" / "quiet")
    texts = {
        "rec_quiet": "NumPy on 2 cores, mostly idle, some runs slowed twofold",
        "rec_shared": "NumPy on 2 cores under heavy foreign load",
        "rec_contended": "NumPy on 2 cores that became 2 to 10 times slower half-way",
    }
    return (
        *(
            Recording(
                name=name,
                title=f"recorded, {text}",
                rounds=_numpy_training(noise / f"{name}.jsonl"),
            )
            for name, text in texts.items()
        ),
        Recording(
            name="torch",
            title="recorded, PyTorch in 2 processes on CPUs, mostly idle",
            rounds=rounds,
            earlier=earlier,
        ),
    )
