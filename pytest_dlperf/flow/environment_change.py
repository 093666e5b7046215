"""What else than the code changed since a stored session: packages, settings, the machine."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from pytest_dlperf.core.baseline import Session
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.frameworks import FRAMEWORKS
from pytest_dlperf.core.measurement import Environment
from pytest_dlperf.core.packages import PACKAGES, PackageChange
from pytest_dlperf.core.secret_texts import MASK
from pytest_dlperf.core.wire import INTERPRETER_VARIABLES, LIBRARY_VARIABLES

#: What describes the measuring, and not what is measured; and the memory, of which each kernel
#: leaves another rest.
_NO_CHANGE: Final = frozenset({"gpu samples", "timing", "memory", PACKAGES})
#: Variables that name a place, which a job may have to itself.
_PLACE: Final = re.compile(r"\w+_(HOME|DIR|DIRECTORY|PATH)")
#: Longer values are not shown.
_LONGEST: Final = 60
#: This package: the same version of it runs both arms.
_OURS: Final = "pytest-dlperf"


@dataclass(frozen=True, kw_only=True)
class EnvironmentChange:
    """What differs between the environment of a stored session and that of now."""

    #: By name, in words: ``driver 550 became 560``.
    settings: Mapping[str, str] = field(default_factory=dict)
    #: Packages whose versions differ; the framework's own first.
    packages: tuple[PackageChange, ...] = ()
    #: Whether packages differ, and one of the lists is not known.
    are_packages_unknown: bool = False
    #: Whether the packages of both are recorded; not so of a program read by its log.
    are_packages_recorded: bool = True
    #: The version that the framework itself reports, before and now, where it differs.
    framework: PackageChange | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """What differs, for people; the packages are one of them."""
        found = list(self.settings.values())
        if self.packages:
            found.insert(0, words_of(self.packages))
        elif self.are_packages_unknown and self.framework is None:
            found.insert(0, "installed packages changed")
        return tuple(found)

    @property
    def unknown(self) -> str:
        """What is not known of the environment, in words; empty where all is."""
        return "" if self.are_packages_recorded else "its packages then or now are not recorded"

    @property
    def exchanged(self) -> tuple[PackageChange, ...]:
        """The packages that the stored session had in another version than now, or alone."""
        return tuple(p for p in self.packages if p.before is not None and p.name != _OURS)

    @property
    def measured_by(self) -> str:
        """The option that measures the changed packages; empty where none does.

        That is the framework's own version of before where it is another one.
        """
        if self.framework is not None:
            return f"--dlperf-against='{self.framework.name}=={self.framework.before}'"
        return "--dlperf-confirm=packages" if self.exchanged else ""

    def without_that_of(self, session: Session, software: Mapping[str, str]) -> EnvironmentChange:
        """Return what is left of it where an arm had ``software``, on this machine.

        What is there as in ``session`` comes from what that arm had of before.
        """
        left = {
            name: words
            for name, words in self.settings.items()
            if name not in session.software or software.get(name) != session.software[name]
        }
        return replace(self, settings=left)


def words_of(packages: Collection[PackageChange]) -> str:
    """Return the first of ``packages`` in words, and how many more there are."""
    first, *more = packages
    if first.before is None:
        words = f"{first.name} {first.now} is new"
    elif first.now is None:
        words = f"{first.name} {first.before} is gone"
    else:
        words = f"{first.name} {first.before} became {first.now}"
    return f"{words} (and {len(more)} more)" if more else words


def environment_change(
    case: Case,
    session: Session,
    environment: Environment,
    packages: Collection[PackageChange],
    *,
    own: Collection[str],
) -> EnvironmentChange:
    """Return what differs between the environments of ``session`` and of now.

    ``packages`` are those whose versions differ, and ``own`` the names of those that are installed
    from this repository: they are code. What one of the two does not know is no difference.
    """
    entry = FRAMEWORKS.get(case.framework)
    names = () if entry is None else entry.distributions
    changed = sorted(
        (package for package in packages if package.name not in own),
        key=lambda package: (package.name not in names, package.name),
    )
    settings = dict(_settings(session, environment))
    framework = next(
        (p for p in changed if p.name in names and p.before is not None and p.now is not None),
        None,
    )
    if framework is not None:
        settings.pop(case.framework, None)
    elif case.framework in settings and names:
        framework = PackageChange(
            name=names[0],
            before=session.software[case.framework],
            now=environment.software[case.framework],
        )
    was, now = session.software.get(PACKAGES), environment.software.get(PACKAGES)
    return EnvironmentChange(
        settings=settings,
        packages=tuple(changed),
        are_packages_recorded=None not in (was, now),
        are_packages_unknown=None not in (was, now) and was != now and not packages,
        framework=framework,
    )


def _settings(session: Session, environment: Environment) -> Iterator[tuple[str, str]]:
    """Yield the name of what differs, but packages, and the words for it.

    A variable that one of the two does not have was not set, where settings were recorded.
    """
    is_recorded = PACKAGES in session.software and PACKAGES in environment.software
    for was, now in (
        (session.software, environment.software),
        (session.machine, environment.machine),
    ):
        for name in sorted({*was, *now}):
            values = was.get(name), now.get(name)
            if name in _NO_CHANGE or values[0] == values[1]:
                continue
            if any(value is not None and MASK in value for value in values):
                continue
            is_variable = name.startswith((*LIBRARY_VARIABLES, *INTERPRETER_VARIABLES))
            if is_variable and _PLACE.fullmatch(name):
                continue
            if None not in values:
                yield name, _became(name, f"{values[0]}", f"{values[1]}")
            elif is_variable and is_recorded:
                yield name, _became(name, values[0] or "(not set)", values[1] or "(not set)")


def _became(name: str, was: str, now: str) -> str:
    if max(len(was), len(now)) > _LONGEST:
        return f"{name} changed"
    return f"{name} {was} became {now}"
