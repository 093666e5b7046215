"""Whether others used the machine: by the worst node, whatever the order of the records."""

from __future__ import annotations

import itertools

import pytest

from pytest_dlperf.measure.disturbance import disturbance
from pytest_dlperf.measure.records import RankRecords


def rank(
    node: str, *, others_s: float = 0.0, steal_s: float = 0.0, seconds: float = 10.0
) -> RankRecords:
    """One rank of a node of 8 cores that used 40 CPU s itself."""
    start = {"node": node, "cores": 8}
    window = {
        "seconds": seconds,
        "host_busy_seconds": 40.0 + others_s,
        "own_cpu_seconds": 40.0,
        "launcher_cpu_seconds": 0.0,
        "host_steal_seconds": steal_s,
    }
    kinds = {"start": start, "window": window}
    return RankRecords(rank=0, by_kind=kinds, spans=(), canaries=())


BUSY, STOLEN = rank("a", others_s=4.5), rank("b", steal_s=4.0)
VERY_BUSY, QUIET = rank("c", others_s=20.0), rank("d")


@pytest.mark.parametrize(
    ("ranks", "shares", "words"),
    [
        (
            [BUSY, STOLEN, VERY_BUSY, QUIET],
            (0.25, 0.0),
            "others used 20.0 CPU s of host c (25% of it)",
        ),
        # 5.6 % is let pass, and is more than the 5 % that are not, since they were stolen
        ([BUSY, STOLEN], (0.05, 0.05), "4.0 CPU s of host b (5% of it) to other guests"),
        ([BUSY, QUIET], (0.05625, 0.0), ""),
        # Too short to be told from rounding, however large the share
        ([rank("e", others_s=0.1, seconds=0.1), STOLEN], (0.05, 0.05), "of host b"),
        # Ranks of one node that took equally long
        ([STOLEN, rank("b", steal_s=3.0, others_s=0.5)], (0.05, 0.05), "hypervisor gave 4.0 CPU"),
    ],
)
def test_the_worst_node_decides_and_is_named(
    ranks: list[RankRecords], shares: tuple[float, float], words: str
) -> None:
    for order in itertools.permutations(ranks):
        found, sentence = disturbance(order)
        assert words in sentence
        assert bool(sentence) is bool(words)
        assert (found["others"], found["steal"]) == pytest.approx(shares)
        assert (found, sentence) == disturbance(ranks)


@pytest.mark.parametrize(
    ("others_s", "cpu", "gpu"), [(4.5, False, False), (12.0, True, False), (24.0, True, True)]
)
def test_a_run_on_gpus_feels_others_only_on_cores_that_it_could_need(
    others_s: float, cpu: bool, gpu: bool
) -> None:
    """It leaves 4 of 8 cores idle; half of those are for others."""
    ranks = [rank("a", others_s=others_s)]
    assert bool(disturbance(ranks)[1]) is cpu
    shares, sentence = disturbance(ranks, on_gpus=True)
    assert bool(sentence) is gpu
    assert shares["others"] == pytest.approx(others_s / 80)  # it is recorded all the same
