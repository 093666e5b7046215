from __future__ import annotations

import importlib.metadata

import pytest

from pytest_dlperf.cli import doctor


def test_doctor_reports_a_framework_that_is_too_old(monkeypatch: pytest.MonkeyPatch):
    def version(name: str) -> str:
        if name == "torch":
            return "1.13.1"
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    facts = doctor.examine()
    told = [line for line in facts["missing"] if "framework torch" in line]
    assert told == [
        "cases of framework torch are not-run: torch 1.13.1 is too old: ranks need 2.3 or newer, "
        "which has torch.amp.GradScaler; install torch>=2.3"
    ]
    assert any("pytest-dlperf[paddle]" in line for line in facts["missing"])
