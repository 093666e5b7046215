"""Case ids taken apart: stored numbers are known by their id alone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.layout import Layout

if TYPE_CHECKING:
    from pytest_dlperf.core.case import Case

_TEXT = re.compile(r"(\w+)(?:\.(\w+))?-(\w+)-(\w+)-bs(\d{1,9})-(\w+)", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseId:
    """The parts of an id such as ``tsm.tiny-torch-bf16-bs2-1n2c``."""

    suite: str
    size: str
    framework: str
    precision: str
    batch_size_per_device: int
    layout: Layout

    @classmethod
    def of(cls, case: Case) -> CaseId:
        """Return the parts of the id of ``case``."""
        return cls(
            suite=case.suite,
            size=case.size,
            framework=case.framework,
            precision=case.precision,
            batch_size_per_device=case.batch_size_per_device,
            layout=case.layout,
        )

    @classmethod
    def parse(cls, text: str) -> CaseId:
        """Return the parts of ``text``; raise ``UsageError`` if it is no case id."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise UsageError(f"{text!r} is no case id; one is tsm-torch-amp-bs16-1n8g")
        suite, size, framework, precision, batch_size, layout = match.groups()
        return cls(
            suite=suite,
            size=size or "full",
            framework=framework,
            precision=precision,
            batch_size_per_device=int(batch_size),
            layout=Layout.parse(layout),
        )
