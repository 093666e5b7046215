"""What an error leaves of a case."""

from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_dlperf.cases.marker import expand
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import BaselineError, CaseError, NotRunError
from pytest_dlperf.core.measurement import Environment
from pytest_dlperf.core.verdict import Judgement, Verdict
from pytest_dlperf.flow import pipeline
from pytest_dlperf.flow.looks import Measured
from pytest_dlperf.flow.pipeline import Mode, measured_by

MEASUREMENT: Any = object()
BENCH: Any = SimpleNamespace(
    folder=Path("/work"), watcher=SimpleNamespace(place=lambda: "run 1 was at iteration 7")
)
[CASE] = expand(suite="net", workload="m:build", batch_size_per_device=1, layout="1n1c")


class _Fails(Mode):
    """Raises after it has measured, or before."""

    def __init__(self, error: Exception, *, is_measured: bool) -> None:
        super().__init__(BENCH)
        self._error, self._is_measured = error, is_measured

    def measure(self, case: Case) -> Measured:
        if self._is_measured:
            judgement = Judgement(verdict=Verdict.PASSED, reason="")
            self.so_far = Measured(
                measurement=MEASUREMENT, judgement=judgement, facts={"unit": "images"}
            )
        raise self._error


@pytest.mark.parametrize(
    "error",
    [
        CaseError("the channel broke"),
        OSError(errno.EBADF, "bad descriptor"),
        # Of somebody's alarm
        TimeoutError("too late"),
        ZeroDivisionError("division by zero"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_as_the_host_is_given_back_keeps_the_measurement(error: Exception):
    found = measured_by(_Fails(error, is_measured=True), CASE, BENCH)
    assert found.judgement.verdict is Verdict.ERROR
    assert found.measurement is MEASUREMENT
    assert found.facts == {"unit": "images"}


@pytest.mark.parametrize(
    ("error", "verdict"),
    [(NotRunError("no GPU"), Verdict.NOT_RUN), (CaseError("x"), Verdict.ERROR)],
)
def test_an_error_before_the_first_run_leaves_nothing(error: Exception, verdict: Verdict):
    found = measured_by(_Fails(error, is_measured=False), CASE, BENCH)
    assert found.judgement.verdict is verdict
    assert found.measurement is None
    assert found.facts == {}


def test_lists_of_packages_that_cannot_be_read_lose_no_verdict(monkeypatch: pytest.MonkeyPatch):
    class Measures(Mode):
        def measure(self, case: Case) -> Measured:
            return Measured(
                measurement=None, judgement=Judgement(verdict=Verdict.PASSED, reason="fast")
            )

    def broken(*_: Any) -> Any:
        raise BaselineError("packages.json: not lists of packages")

    here = Environment(machine_class="m", hardware="m", node="n", software={}, machine={})
    bench: Any = SimpleNamespace(
        folder=Path("/work"),
        traces=False,
        hosts=SimpleNamespace(environment=lambda *_: here),
        stored=SimpleNamespace(
            published_value=lambda _: {},
            package_changes=broken,
            with_folder=lambda judgement: judgement,
        ),
    )
    monkeypatch.setattr(pipeline, "mode_of", lambda bench, _: Measures(bench))
    outcome = pipeline.run_case(CASE, bench, workload_folder="")
    assert outcome.judgement.verdict is Verdict.PASSED
    assert outcome.judgement.reason == "fast\npackages.json: not lists of packages"
    assert outcome.package_changes == ()
