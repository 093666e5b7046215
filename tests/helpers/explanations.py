"""An explanation with all tables, whose words are hostile to a page."""

from __future__ import annotations

from pytest_dlperf.core.outcome import (
    Explanation,
    MemoryChange,
    ModuleTime,
    OperatorChange,
    PartChange,
    RankWait,
    StackTime,
)


def part(name: str, before: float | None, after: float, *, named: bool = False) -> PartChange:
    difference = None if before is None else after - before
    share = None if difference is None else difference / 40
    return PartChange(part=name, before_ms=before, after_ms=after, difference_ms=difference,
                      share=share, named=named)  # fmt: skip


FOUND = Explanation(
    sentence="of 40 ms more a step: exposed communication +33",
    rank=1,
    before_ms=60.0,
    after_ms=100.0,
    agrees=True,
    parts=(
        part("exposed communication", 2, 35, named=True),
        part("compute", 50, 56),
        *(part(f"other {number}", 1, 1) for number in range(5)),
    ),
    operators=(
        OperatorChange(path="<i>head", operator="aten::fill_", part="compute", before_calls=0,
                       after_calls=3, before_ms=0, after_ms=6, difference_ms=6, named=True),
    ),
    before_launches=40,
    after_launches=43,
    modules=(
        ModuleTime(path="body.0", before_ms=20, after_ms=20),
        ModuleTime(path="body.<1>", before_ms=20, after_ms=30),
        ModuleTime(path="body.<1> (backward)", before_ms=10, after_ms=5),
        ModuleTime(path="optimizer", before_ms=1, after_ms=1),
    ),
    ranks=(
        RankWait(rank=0, before_ms=3, after_ms=43, named=True),
        RankWait(rank=1, before_ms=2, after_ms=2, named=False),
    ),
    before_peak_bytes=2**30,
    after_peak_bytes=2**31,
    memory=(
        MemoryChange(place="train.py(7): step: aten::cat", before_bytes=0, after_bytes=2**30,
                     before_count=0, after_count=3, named=True),
    ),
    stacks=(StackTime(frames="step;<lambda>", before_ms=1, after_ms=9),),
    traces=("/w/explain1/trace.json.gz",),
)  # fmt: skip
