"""The ``dlperf`` fixture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_dlperf.cases.selection import Selected
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.verdict import GOOD
from pytest_dlperf.report.printable import shown

if TYPE_CHECKING:
    from pytest_dlperf.session.perf_session import PerfSession


class Dlperf:
    """The ``dlperf`` fixture: one case, ready to run."""

    def __init__(self, selected: Selected, session: PerfSession, item: pytest.Item) -> None:
        self.case = selected.case
        self._misfit = selected.error
        #: None until the case ran.
        self.outcome: Outcome | None = None
        self._session = session
        self._item = item

    def run(self) -> Outcome:
        """Train, measure and judge the case; return its outcome.

        The test fails here if the verdict says so, and is skipped here if the case could not
        be measured. Each test runs its case once.
        """
        __tracebackhide__ = True
        if self.outcome is not None:
            raise UsageError(f"{self.case.id}: dlperf.run() was called twice in one test")
        ending = self._session.ending
        try:
            self.outcome = self._session.run(self.case, self._item, misfit=self._misfit)
        finally:
            ending.release()
        outcome = self.outcome
        sentence = f"{outcome.judgement.verdict}: {shown(outcome.judgement.reason)}"
        if outcome.failed:
            pytest.fail(sentence, pytrace=False)
        if outcome.judgement.verdict not in GOOD and outcome.measurement is None:
            pytest.skip(sentence)
        return outcome


def make_fixture(request: pytest.FixtureRequest, session: PerfSession) -> Dlperf:
    """Return the fixture of a test; fail it if the test has no case."""
    selected = getattr(request, "param", None)
    if selected is None:
        pytest.fail(
            "the fixture dlperf runs the case of a test's marker, and this test has none; mark it "
            "with @pytest.mark.dlperf(...)",
            pytrace=False,
        )
    return Dlperf(selected, session, request.node)
