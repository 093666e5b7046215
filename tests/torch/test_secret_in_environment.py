"""A secret of the environment reaches real ranks, and nothing that a session writes."""

from __future__ import annotations

import pytest

from tests.helpers.leaks import files_with, open_to_others, process_lists
from tests.helpers.user_folder import Folder

pytestmark = pytest.mark.torch

SECRET = "hunter2-of-the-environment"


@pytest.mark.parametrize("fault", [None, "raises"])
def test_no_file_and_no_process_list_has_it(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, fault: str | None
):
    monkeypatch.setenv("SECRET_TOKEN", SECRET)
    folder.write(timeout_s=60.0, options={"fault": fault} if fault else {})
    with process_lists(SECRET) as listed:
        result, [outcome] = folder.run("-v", "--junit-xml=junit.xml")
    assert (outcome["judgement"]["verdict"] == "error") == bool(fault), result.stdout.str()
    assert listed == set()
    assert SECRET not in result.stdout.str() + result.stderr.str()
    assert files_with(SECRET, folder.path) == []
    assert open_to_others(folder.path / ".dlperf") == []
