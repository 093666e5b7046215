"""One pytest process of a session: what its measuring and its reporting part share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.session import usage
from pytest_dlperf.session.case_record import CaseRecords
from pytest_dlperf.session.ending import Ending
from pytest_dlperf.session.exits import usage_error
from pytest_dlperf.session.process import Process, process_of
from pytest_dlperf.session.resources import Resources
from pytest_dlperf.session.resumed import Resumed
from pytest_dlperf.session.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(kw_only=True)
class Session:
    """Made when the first perf case is collected, or an option is given."""

    settings: Settings
    process: Process
    resources: Resources
    records: CaseRecords
    ending: Ending
    #: What is taken from the file of ``--dlperf-resume``; None without one.
    resumed: Resumed | None
    header_shown: bool = False

    @classmethod
    def from_config(cls, config: pytest.Config) -> Session:
        """Return the session of ``config``; raise ``pytest.UsageError`` for invalid settings."""
        process, records, ending = process_of(config), CaseRecords(), Ending()
        try:
            settings = Settings.from_config(config)
            usage.check_together(settings, process)
            resumed = None if settings.resume is None else Resumed(settings.resume, records)
        except UsageError as error:
            raise usage_error(error) from error
        return cls(
            settings=settings,
            process=process,
            resources=Resources(config, settings, process, ending),
            records=records,
            ending=ending,
            resumed=resumed,
        )

    def check_usage(self) -> None:
        """Raise ``pytest.UsageError`` for settings that cannot do what they are for."""
        if self.process.is_worker:  # the process that started it has checked them
            return
        try:
            usage.check_at_start(self.settings, self.process)
        except UsageError as error:
            raise usage_error(error) from error

    def check_resumed(self, cases: Sequence[Case]) -> None:
        """Raise ``pytest.UsageError`` if the file to go on from is of others than ``cases``."""
        # An exception would end an xdist worker without a word
        if self.resumed is None or self.process.is_worker:
            return
        try:
            self.resumed.check(cases)
        except UsageError as error:
            raise usage_error(error) from error
