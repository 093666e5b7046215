"""The ``dlperf`` fixture."""

from __future__ import annotations

from typing import Final

import pytest

from pytest_dlperf.cases.selection import Selected
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.verdict import GOOD, Verdict
from pytest_dlperf.core.writable import error_words, message_of
from pytest_dlperf.report.printable import shown
from pytest_dlperf.session.case_record import planned_tests
from pytest_dlperf.session.measurer import Measurer
from pytest_dlperf.session.no_verdict import outcome_without_verdict
from pytest_dlperf.session.session import Session

#: In the message of pytest-timeout's exception.
_OF_PYTEST_TIMEOUT: Final = "pytest-timeout"


class Dlperf:
    """The ``dlperf`` fixture: one case, ready to run."""

    def __init__(
        self, selected: Selected, session: Session, measurer: Measurer, item: pytest.Item
    ) -> None:
        self.case = selected.case
        self._selected, self._item = selected, item
        self._session, self._measurer = session, measurer
        self._record = session.records[selected.case.id]
        self._record.attempt = None

    @property
    def outcome(self) -> Outcome | None:
        """What the case came to; None until it ran."""
        return self._record.attempt

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
            outcome = self._record.attempt = self._measurer.run(self._selected, self._item)
        except (KeyboardInterrupt, pytest.exit.Exception):
            raise  # the end of the session, which reports what has no outcome
        except BaseException as error:
            self._record.attempt = self._ended_by(error)
            raise
        finally:
            ending.release()
        sentence = f"{outcome.judgement.title}: {shown(outcome.judgement.reason)}"
        if outcome.failed:
            pytest.fail(sentence, pytrace=False)
        if outcome.judgement.verdict not in GOOD and outcome.measurement is None:
            pytest.skip(sentence)
        return outcome

    def _ended_by(self, error: BaseException) -> Outcome:
        """Return the outcome of the case, as somebody's exception ended its test."""
        [planned] = planned_tests([self._item])
        ends = isinstance(error, pytest.fail.Exception)
        text = message_of(error) if ends else error_words(error)
        words = text.strip().partition("\n")[0].rstrip(".")
        why = f"its test was ended by {words}"
        if place := self._session.resources.watcher.place():
            why += f", while {place}"
        if _OF_PYTEST_TIMEOUT in words:
            why += (
                "; @pytest.mark.timeout(0) takes that limit from the test, whose runs end by "
                "--dlperf-timeout"
            )
        return outcome_without_verdict(planned, self._session, why, verdict=Verdict.ERROR)


def make_fixture(request: pytest.FixtureRequest, session: Session, measurer: Measurer) -> Dlperf:
    """Return the fixture of a test; fail it if the test has no case."""
    selected = getattr(request, "param", None)
    if selected is None:
        pytest.fail(
            "the fixture dlperf runs the case of a test's marker, and this test has none; mark it "
            "with @pytest.mark.dlperf(...)",
            pytrace=False,
        )
    return Dlperf(selected, session, measurer, request.node)
