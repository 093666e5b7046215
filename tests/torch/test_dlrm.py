"""DLRM at tiny size, and its tables on two ranks against those on one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from perf_tests.dlrm.data import Clicks
from perf_tests.dlrm.recipe import SIZES, owners
from perf_tests.dlrm.torch_model import MODELS
from perf_tests.dlrm.torch_train import skewed
from pytest_dlperf.worker.failure import WorkerFailure
from tests.helpers.gloo_ranks import Reports, reports_of
from tests.helpers.losses import assert_losses_fell
from tests.helpers.suites import train_suites

pytestmark = pytest.mark.torch
SCRIPT = Path(__file__).with_name("dlrm_ranks.py")
FULL = SIZES["full"]


# The gate has two ranks in one process (test_planted_in_each_suite.py).
@pytest.mark.nightly
def test_both_models_train_on_two_ranks(tmp_path: Path):
    done, outcomes = train_suites(
        tmp_path, "dlrm", "--cpus=2", "--dlperf-iterations=60", "--dlperf-warmup=10"
    )
    assert len(outcomes) == 2, done.stdout
    for outcome in outcomes:
        assert outcome["measurement"] is not None, outcome["judgement"]["reason"]
        [run] = outcome["measurement"]["runs"]
        assert len(run["ranks"]) == 2
        assert_losses_fell(run)
        assert outcome["measurement"]["speedup"] is not None


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Reports:
    return reports_of(SCRIPT, tmp_path_factory.mktemp("ranks"))


@pytest.mark.parametrize("name", MODELS)
def test_two_ranks_train_as_one_on_the_same_global_batch(reports: Reports, name: str):
    alone, first, second = (report[name] for report in reports)
    both = [(a + b) / 2 for a, b in zip(first["losses"], second["losses"], strict=True)]
    assert both == pytest.approx(alone["losses"], rel=1e-8)
    assert alone["losses"][-1] < alone["losses"][0]
    assert first["layers"] == second["layers"] == pytest.approx(alone["layers"], rel=1e-8)
    assert first["tables"]
    assert second["tables"]
    assert first["tables"] | second["tables"] == pytest.approx(alone["tables"], rel=1e-8)


def test_the_tables_are_those_of_mlperf():
    """26 categories; 204,184,588 rows and 214 values a sample (its README)."""
    assert len(FULL.rows) == len(FULL.hots) == 26
    assert (sum(FULL.rows), sum(FULL.hots)) == (204_184_588, 214)
    assert FULL.bottom[-1] == FULL.embedding


def test_large_tables_are_on_ranks_of_their_own():
    held = owners(FULL.rows, 8)
    large = [held[table] for table, rows in enumerate(FULL.rows) if rows == 40_000_000]
    assert len(set(large)) == 5
    assert set(held) == set(range(8))
    with pytest.raises(ValueError, match="6 ranks share 5 tables, and each needs one"):
        owners(SIZES["tiny"].rows, 6)


def test_rows_are_within_their_table_and_low_ones_are_frequent():
    found = skewed(torch.rand(10_000, generator=torch.Generator().manual_seed(0)), 1000)
    assert found.min() == 0
    assert found.max() < 1000
    # A third of the numbers up to 1000 are below 10, by their logarithm.
    assert 0.25 < (found < 10).double().mean() < 0.42
    assert skewed(torch.rand(100, generator=torch.Generator().manual_seed(0)), 1).max() == 0


def test_criteos_files_are_read_and_others_are_named(tmp_path: Path):
    folder = tmp_path / "dlrm"
    folder.mkdir()
    np.save(folder / "day_0_dense.npy", np.ones((6, 4), np.float32))
    np.save(folder / "day_0_sparse.npy", np.arange(30, dtype=np.int32).reshape(6, 5))
    np.save(folder / "day_0_labels.npy", np.array([[0], [1]] * 3, np.int32))
    tiny = SIZES["tiny"]
    clicks = Clicks(str(tmp_path), tiny.rows, tiny.dense)
    dense, rows, label = clicks[5]
    assert (len(clicks), dense.tolist(), label) == (6, [1.0] * 4, 1.0)
    assert rows.tolist() == [25, 26, 27, 28 % 20, 29 % 3]
    with pytest.raises(WorkerFailure, match=r"npy has the shape \(6, 5\), and \(6, 2\)"):
        Clicks(str(tmp_path), (3, 3), 4)
    (folder / "day_0_labels.npy").write_bytes(b"no array")
    with pytest.raises(WorkerFailure, match=r"day_0_labels\.npy cannot be read"):
        Clicks(str(tmp_path), tiny.rows, tiny.dense)
    with pytest.raises(WorkerFailure, match=r"has no file day_0_dense\.npy"):
        Clicks(str(folder.parent.parent), tiny.rows, tiny.dense)
