"""Parse the values of options; each function raises ``UsageError`` with the option's name."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from pytest_dlperf.core.case import NO_FRAMEWORK, PRECISIONS
from pytest_dlperf.core.device_rates import DEVICE_RATES
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.frameworks import FRAMEWORKS
from pytest_dlperf.core.quantity import parse_duration, parse_share, whole_number
from pytest_dlperf.session.options import FLAG, OPTIONS, Option, ReportOption

#: Returns the text of the option of a name without ``--dlperf-``, None without one.
Get = Callable[[str], Any]
#: Options that name a file which is made of the outcomes.
REPORTS: Final = tuple(option.name for option in OPTIONS if isinstance(option, ReportOption))


def report_files(get: Callable[[str], Any], folder: Path) -> dict[str, Path]:
    """Return the files to make of the outcomes, by the option that names each."""
    return {name: folder / get(name) for name in REPORTS if get(name)}


def text(value: str, option: Option) -> str:
    """Return the text as it is."""
    return value


def cost_device(value: str, option: Option) -> str:
    """Return the name of a device whose rates are known."""
    if value not in DEVICE_RATES:
        raise UsageError(
            f"{option.shown}={value}: its rates are not known; known are {', '.join(DEVICE_RATES)}"
        )
    return value


def share(value: str, option: Option) -> float:
    """Return a share below 1, written as ``3%`` or ``0.03``."""
    return parse_share(value, what=option.shown)


def duration(value: str, option: Option) -> float:
    """Return the seconds of a time written as ``45m``."""
    return parse_duration(value, what=option.shown)


def seconds(value: str, option: Option) -> float:
    """Return a number of seconds above 0."""
    try:
        found = float(value)
    except ValueError:
        found = float("nan")
    if not 0 < found < float("inf"):
        raise UsageError(f"{option.shown}={value}: give a number of seconds above 0")
    return found


def whole(value: str, option: Option) -> int:
    """Return a whole number, 1 or more."""
    return whole_number(value, option.shown, least=1)


def whole_or_zero(value: str, option: Option) -> int:
    """Return a whole number, 0 or more."""
    return whole_number(value, option.shown, least=0)


def counts(value: str, option: Option) -> tuple[int, ...]:
    """Return the whole numbers of a list, each once."""
    return tuple(
        dict.fromkeys(whole_number(part, option.shown, least=1) for part in value.split(","))
    )


def choice(value: str, option: Option) -> str:
    """Return one of the values that the option's metavar lists."""
    return _one_of(value, option.metavar.split("|"), f"{option.shown}={value}")


def frameworks(value: str, option: Option) -> tuple[str, ...]:
    """Return the names of frameworks in a list."""
    return _names(value, (*FRAMEWORKS, NO_FRAMEWORK), option)


def precisions(value: str, option: Option) -> tuple[str, ...]:
    """Return the names of precisions in a list."""
    return _names(value, PRECISIONS, option)


def _names(value: str, known: Sequence[str], option: Option) -> tuple[str, ...]:
    names = tuple(name.strip() for name in value.split(","))
    return tuple(_one_of(name, known, f"{option.shown}={name}") for name in names)


def _one_of(value: str, known: Sequence[str], given: str) -> str:
    if value not in known:
        raise UsageError(f"{given}: known are {', '.join(known)}")
    return value


def variables(value: str, option: Option) -> tuple[str, ...]:
    """Return the names of environment variables in a list."""
    found = tuple(name.strip() for name in value.split(",") if name.strip())
    for name in found:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise UsageError(
                f"{option.shown}={value}: {name!r} is not the name of a variable; give names "
                "alone, their values are taken from this environment"
            )
    return found


def glob_and_share(value: str, option: Option) -> tuple[str, float]:
    """Return a pattern of case ids, and the share to slow them by."""
    glob, _, slower = value.rpartition(":")
    return glob or "*", parse_share(slower, what=option.shown)


class Given:
    """What was given on the command line: each option parsed as its entry in the table says."""

    def __init__(self, get: Get) -> None:
        """Raise ``UsageError`` for options that exclude each other, and values of another kind."""
        self._get = get
        self._check_exclusions()
        self._values = {option.name: self._parsed(option) for option in OPTIONS}

    def __call__(self, name: str) -> Any:
        """Return the value of an option; None where it was not given and has no default."""
        return self._values[name]

    def _parsed(self, option: Option) -> Any:
        value = self._get(option.name)
        if value is None or option.metavar == FLAG:
            return value
        if "" in ([value] if isinstance(value, str) else value):
            raise UsageError(
                f"{option.shown}: it is empty; give {option.metavar}, or leave it out"
            )
        parse: Callable[[str, Option], Any] = globals()[option.parse]
        if option.repeated:
            return tuple(parse(text, option) for text in value)
        return parse(value, option)

    def _check_exclusions(self) -> None:
        shown = {option.name: option.shown for option in OPTIONS}
        for option in OPTIONS:
            for name, why in option.excludes.items():
                if self._is_given(option.name) and self._is_given(name):
                    raise UsageError(f"{option.shown} and {shown[name]}: {why}")

    def _is_given(self, name: str) -> bool:
        # Of one that can be repeated nothing is an empty list
        return self._get(name) not in (None, False, [], ())
