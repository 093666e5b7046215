"""What a rank reads: endless epochs, timed waits, errors from wherever data are read."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_dlperf.worker import feed as feed_module
from pytest_dlperf.worker.batch_rows import BatchRows, Shaped
from pytest_dlperf.worker.failure import WorkerFailure
from pytest_dlperf.worker.feed import Feed


class Loader:
    """Two batches an epoch, notified of each."""

    def __init__(self):
        self.epochs = []
        self.sampler = self

    def set_epoch(self, epoch):
        self.epochs.append(epoch)

    def __iter__(self):
        return iter([(self.epochs[-1], 0), (self.epochs[-1], 1)])


def test_epochs_without_end():
    loader, feed = Loader(), Feed()
    assert not feed.used
    assert feed.take_wait() is None
    assert feed.record() == {"kind": "synthetic"}
    batches = feed.batches(loader)
    assert [next(batches) for _ in range(5)] == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]
    assert loader.epochs == [0, 1, 2]
    assert feed.take_wait() > 0
    assert feed.take_wait() == 0
    feed.note(workers=2)
    assert feed.record() == {"kind": "real", "workers": 2, "batches_per_iteration": 2.5}


def test_readers_are_measured_alone_before_the_training(monkeypatch: pytest.MonkeyPatch):
    """A batch takes a tenth of a second, and the first of all two seconds more."""
    clock = SimpleNamespace(now_s=0.0)
    monkeypatch.setattr(feed_module.time, "perf_counter", lambda: clock.now_s)

    class Slow(Loader):
        def __iter__(self):
            for batch in super().__iter__():
                clock.now_s += 0.1 if clock.now_s else 2.0
                yield batch

    feed = Feed()
    batches = feed.batches(Slow())
    feed.read_alone()
    assert feed.take_wait() == 0, "no wait of the training"
    for _ in range(2):
        next(batches)
        next(batches)
        assert feed.take_wait() == pytest.approx(0.2)
    record = feed.record()
    assert record["alone_batches"] == 10
    assert record["alone_seconds"] == pytest.approx(1.0)
    assert record["batches_per_iteration"] == pytest.approx(4 / 3)


def test_a_last_batch_that_is_not_whole_is_an_error_in_its_iteration(
    monkeypatch: pytest.MonkeyPatch,
):
    """It counted as a whole one, or not at all: which batch was looked at was chance."""
    monkeypatch.setattr(feed_module, "_ALONE_S", 0.0)
    loader = [Shaped((4, 2)), Shaped((4, 2)), Shaped((1, 2))]
    feed = Feed()
    batches = feed.batches(loader, BatchRows(4))
    feed.read_alone()
    assert next(batches).shape == (1, 2)
    with pytest.raises(WorkerFailure, match=r"batch of job\.batches has 1 rows"):
        feed.rows.end()
    for _ in range(2):
        next(batches)
        feed.rows.end()
    next(batches)
    feed.rows.is_said = True
    feed.rows.end()


def test_what_is_read_alone_is_not_trained_on(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(feed_module, "_ALONE_S", 0.0)
    feed = Feed()
    batches = feed.batches([Shaped((4,)), Shaped((1,))], BatchRows(4))
    feed.read_alone()
    feed.rows.end()
    next(batches)
    feed.rows.end()


def test_a_training_that_reads_nothing_has_no_readers():
    feed = Feed()
    feed.read_alone()
    assert feed.record() == {"kind": "synthetic"}


def test_data_without_a_batch():
    with pytest.raises(WorkerFailure, match="no whole batch for this rank"):
        next(Feed().batches([]))


def test_fewer_samples_than_an_iteration_takes():
    feed = Feed()
    assert len(feed.guard(range(9), 2, 4)) == 8
    with pytest.raises(WorkerFailure, match="has 7 samples, and one iteration of 2 x 4 takes 8"):
        feed.guard(range(7), 2, 4)


class Broken:
    def __len__(self):
        return 8

    def __getitem__(self, index):
        if index == 2:
            raise WorkerFailure("data-image", "img.png cannot be read")
        if index == 3:
            raise KeyError("label")
        return index


@pytest.mark.parametrize(
    ("index", "code", "said"),
    [
        (2, "data-image", "img.png cannot be read"),
        (3, "data-unreadable", "sample 3 cannot be read: KeyError: 'label'"),
    ],
)
@pytest.mark.parametrize("raises", [True, False])
def test_what_was_wrong_is_raised_however_the_loader_ends(index, code, said, raises):
    feed = Feed()
    guarded = feed.guard(Broken(), 1, 1)

    def loader():
        yield guarded[0]
        try:
            guarded[index]
        except StopIteration:
            if raises:
                raise RuntimeError("a worker ended") from None

    batches = feed.batches(loader())
    assert next(batches) == 0
    with pytest.raises(WorkerFailure) as caught:
        next(batches)
    assert (caught.value.code, str(caught.value)) == (code, said)
