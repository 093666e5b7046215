from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.measure.nodes import await_other_nodes, check_node_part, ranks_of
from tests.helpers import record_files

CASE = record_files.case("3n2c")
ALL = [record_files.rank_records(rank, world_size=6) for rank in range(6)]


def test_ranks_are_counted_through_the_nodes():
    assert [list(ranks_of(CASE, node)) for node in range(3)] == [[0, 1], [2, 3], [4, 5]]


def test_records_that_are_all_there_are_not_waited_for(tmp_path: Path):
    await_other_nodes(CASE, record_files.write(tmp_path, ALL), seen_after_s=0)


def test_records_that_come_late_are_waited_for(tmp_path: Path):
    run = record_files.write(tmp_path, [*ALL[:5], record_files.without(ALL[5], "end")])
    late = threading.Timer(0.4, record_files.write, (tmp_path, ALL))
    late.start()
    await_other_nodes(CASE, run, seen_after_s=60)
    assert not late.is_alive()


def test_nodes_of_which_nothing_is_seen_are_named(tmp_path: Path):
    run = record_files.write(tmp_path, ALL[2:4])
    with pytest.raises(CaseError, match=r"nodes 0, 2 are not in .*--dlperf-workdir=DIR"):
        await_other_nodes(CASE, run, seen_after_s=0)
    run = record_files.write(tmp_path, ALL[:4])
    with pytest.raises(CaseError, match="records of node 2 are not in"):
        await_other_nodes(CASE, run, seen_after_s=0)


def test_nothing_is_waited_for_after_a_failure(tmp_path: Path):
    run = record_files.write(tmp_path, ALL[:2])
    await_other_nodes(CASE, replace(run, exit_code=1), seen_after_s=60)


def test_a_share_is_done_when_its_own_ranks_are(tmp_path: Path):
    run = record_files.write(tmp_path, ALL[2:4])
    check_node_part(CASE, run, 1)
    with pytest.raises(CaseError, match="rank 0 never started"):
        check_node_part(CASE, run, 0)
