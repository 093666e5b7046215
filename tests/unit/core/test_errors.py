"""An error keeps the parts of its message."""

from __future__ import annotations

import pickle

import pytest

from pytest_dlperf.core.errors import CaseError, DlperfError

ID = "mlp-torch-fp32-tiny-1n1g"
LOG = "Log: run1/output.log, its last lines:\n    killed"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (CaseError("it failed"), "it failed"),
        (CaseError("it failed", subject=ID), f"{ID}: it failed"),
        (CaseError("it failed", subject=ID, remedy="do x"), f"{ID}: it failed; do x"),
        (CaseError("it failed.", subject=ID, remarks=LOG), f"{ID}: it failed.\n{LOG}"),
        # The message of a rank has lines of its own
        (CaseError("rank 0: a\n  b", remedy="do x", remarks=LOG), f"rank 0: a; do x\n  b\n{LOG}"),
    ],
)
def test_the_message_has_all_parts(error: DlperfError, message: str):
    assert str(error) == error.words() == message
    assert error.first_line() == message.splitlines()[0]


def test_a_subject_that_is_named_already_is_left_out():
    error = CaseError("it failed", subject=ID, remedy="do x", remarks=LOG)
    assert error.words(below=ID) == f"it failed; do x\n{LOG}"
    assert error.first_line(below=ID) == "it failed; do x"
    assert error.words(below="mlp") == str(error)
    assert error.cause == "it failed"


def test_an_error_of_another_process_has_its_parts():
    error = pickle.loads(pickle.dumps(CaseError("it failed", subject=ID, remarks=LOG)))
    assert isinstance(error, CaseError)
    assert (error.words(below=ID), str(error)) == (f"it failed\n{LOG}", f"{ID}: it failed\n{LOG}")
