"""Formats and patterns that others write, and that may be broken."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest

from pytest_dlperf.cli import main
from pytest_dlperf.measure.logs import registry
from pytest_dlperf.measure.logs.declare import Format, LogRecord
from tests.helpers.log_writer import log
from tests.helpers.paddle_lines import plsc

Declare = Callable[..., None]


def fmt(**values: object) -> Format:
    known: dict[str, object] = {
        "name": "theirs",
        "scope": "global",
        "averaging": "window",
        "unit": "images",
        "anchors": (b"their step",),
        "parse": lambda _: None,
    }
    return Format(**(known | values))  # type: ignore[arg-type]


@pytest.fixture
def declare(monkeypatch: pytest.MonkeyPatch) -> Iterator[Declare]:
    """Declare an entry point of a module of that content; nothing is kept of it."""

    def declare(declared: object, value: str = "their_formats:FORMAT") -> None:
        module = ModuleType("their_formats")
        module.FORMAT = declared  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "their_formats", module)
        entry = EntryPoint(name="theirs", value=value, group=registry.ENTRY_POINTS)
        monkeypatch.setattr(registry, "entry_points", lambda group: [entry])
        forget()

    def forget() -> None:
        registry.formats.cache_clear()
        registry._third_party.cache_clear()
        registry._say.cache_clear()

    yield declare
    monkeypatch.undo()
    forget()


def raising(line: bytes) -> LogRecord | None:
    raise IndexError("no such field")


BROKEN = {
    "no module": (None, "nonesuch_formats:FORMAT", "ModuleNotFoundError"),
    "no attribute": (None, "their_formats:NONESUCH", "AttributeError"),
    "no format": (42, "their_formats:FORMAT", "Format"),
    "no anchors": (fmt(anchors=()), "their_formats:FORMAT", "anchors"),
    "empty anchor": (fmt(anchors=(b"",)), "their_formats:FORMAT", "anchors"),
    "words": (fmt(anchors="step"), "their_formats:FORMAT", "anchors"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_entry_point_stops_only_who_needs_it(
    declare: Declare, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    declared, value, word = BROKEN[name]
    declare(declared, value)
    path = tmp_path / "x.log"
    path.write_text(log(plsc))

    assert main(["extract", str(path)]) == 0
    (warning,) = capsys.readouterr().err.splitlines()
    assert value in warning
    assert word in warning

    assert main(["extract", str(path), "--format=theirs"]) == 2
    (error,) = capsys.readouterr().err.splitlines()
    assert value in error


@pytest.mark.parametrize("parse", [raising, lambda _: (1, 2)])
def test_a_parser_that_fails_is_named(
    declare: Declare, tmp_path: Path, capsys: pytest.CaptureFixture[str], parse: object
) -> None:
    declare(fmt(parse=parse, by_shape=True))
    path = tmp_path / "x.log"
    path.write_text("their step 1\n" + log(plsc))

    assert main(["extract", str(path)]) == 0
    assert "their_formats:FORMAT" in capsys.readouterr().err

    assert main(["extract", str(path), "--format=theirs"]) == 2
    assert "their_formats:FORMAT" in capsys.readouterr().err


def test_a_format_of_another_package_is_read(
    declare: Declare, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    declare(fmt(parse=lambda line: LogRecord(step=int(line.split()[2]), rate=32.0)))
    path = tmp_path / "x.log"
    path.write_text("".join(f"their step {i}\n" for i in range(150)))

    assert main(["extract", str(path)]) == 0
    assert "theirs" in capsys.readouterr().out


@pytest.mark.parametrize(
    "pattern",
    [
        r".*.*.*iter: (?P<step>\d+).*.*.*ips: (?P<rate>\S+) q",
        r"(?:\w+\s?)+: (?P<step>\d+) (?P<rate>\S+) !",
        r"(?:(?:.*)*)*iter: (?P<step>\d+) (?P<rate>\d+) !",
    ],
)
def test_a_pattern_that_would_take_for_ever_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], pattern: str
) -> None:
    line = (
        "2022-02-05 04:33:42 [INFO] [TRAIN] epoch: 1, iter: {}/150, loss: 0.6, learning_rate: "
        "some_words_that_go_on_and_on_and_on_and_on_and_on_and_on, ips: 32.0 samples/sec"
    )
    path = tmp_path / "x.log"
    path.write_text("short\n" * 50 + "".join(f"{line.format(i)}\n" for i in range(150)))

    assert main(["extract", str(path), f"--pattern={pattern}"]) == 2
    assert "takes too long" in capsys.readouterr().err


def test_a_pattern_with_a_few_open_repetitions_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text("".join(f"iter: {i}, x: {'y' * 4000} ips: 32.0 im\n" for i in range(150)))

    assert main(["extract", str(path), r"--pattern=iter: (?P<step>\d+).*ips: (?P<rate>\S+)"]) == 0
