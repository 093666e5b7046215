"""What JAX and TensorFlow recorded is read without a library of protocol buffers."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from pytest_dlperf.worker.xplane import Instruction, XSpace

RECORDED = Path(__file__).parent / "recorded"


def data_of(name: str) -> bytes:
    return gzip.decompress((RECORDED / f"{name}.xplane.pb.gz").read_bytes())


def test_threads_events_and_programs_are_read():
    space = XSpace(data_of("jax_two_devices"))
    lines = list(space.lines())
    assert {line.plane for line in lines} == {"/host:CPU"}
    assert len({line.number for line in lines}) == len(lines)
    steps = [e for line in lines for e in line.events if e.name == "dlperf.step"]
    assert len(steps) == 2
    assert 0 < steps[0].begin_us < steps[0].end_us < steps[1].begin_us
    facts = [e.facts for line in lines for e in line.events if e.name == "all-reduce"]
    assert sorted(one["device_ordinal"] for one in facts) == [0, 0, 1, 1]
    [program] = space.programs().values()
    assert program["all-reduce"] == Instruction("all-reduce", "jit(update)/shard_map/psum")
    began_s = space.begin_s()
    assert began_s is not None
    assert began_s > 1.7e9, "seconds since 1970"


def test_texts_that_several_facts_share_are_read():
    lines = XSpace(data_of("tensorflow_horovod")).lines()
    names = {e.facts["kernel_type"] for line in lines for e in line.events if "_p" in e.facts}
    assert names == {"HorovodAllreduce"}


@pytest.mark.parametrize("cut", [1, 1000, 3001])
def test_a_file_that_is_cut_short_is_an_error(cut: int):
    space = XSpace(data_of("jax_two_devices")[:cut])
    with pytest.raises(ValueError, match="at byte"):
        list(space.lines())


def test_another_file_is_an_error():
    with pytest.raises(ValueError, match="unknown kind 7"):
        list(XSpace(b"\x0f\x00").lines())
