"""An added operator is found by profiles of a real training of two ranks."""

from __future__ import annotations

import pytest

from tests.helpers.user_folder import Folder

pytestmark = pytest.mark.torch

TRAIN = """
import os
import torch

class Witness:
    def __del__(self):
        open(os.environ["FREED"], "w").close()

def build(job):
    witness = Witness()
    model = job.data_parallel(torch.nn.Sequential(torch.nn.Linear(32, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(job.batch_size_per_device, 32, generator=job.generator())

    def step():
        assert witness
        loss = model(x).square().mean()
        if os.environ["EXTRA"] == "yes":
            torch.linalg.vector_norm(x)
        job.backward(loss, optimizer)
        return loss

    return step
"""


def test_calls_that_one_arm_alone_has_are_in_the_tables(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
):
    """What a profile says of times depends on the machine, what it says of calls does not."""
    folder.write("train:build", suite="net", layout="1n2c", iterations=12, warmup=4,
                 runs=2, max_runs=2, speedup=None)  # fmt: skip
    (folder.path / "train.py").write_text(TRAIN, encoding="utf-8")
    monkeypatch.setenv("EXTRA", "yes")
    freed = folder.path / "freed"
    monkeypatch.setenv("FREED", str(freed))
    _, (outcome,) = folder.run(
        "-p", "tests.helpers.no_repeats", "--dlperf-against=EXTRA=no", "--dlperf-explain=always"
    )
    found = outcome["explanation"]
    assert found["note"] == ""
    rows = {row["operator"]: row for row in found["operators"] if row["path"] == ""}
    norm = rows["aten::linalg_vector_norm"]
    assert (norm["before_calls"], norm["after_calls"]) == (0, 1)
    total = sum(part["difference_ms"] for part in found["parts"])
    assert total == pytest.approx(found["after_ms"] - found["before_ms"])
    assert {"compute", "exposed communication", "Python and launches"} <= {
        part["part"] for part in found["parts"]
    }
    assert len(found["traces"]) == 2
    assert not freed.exists(), "a wrapper that is freed may wait for ever for a thread of gloo"
