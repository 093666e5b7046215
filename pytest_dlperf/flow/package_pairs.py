"""Pairs with the packages of a stored session, where these changed and not the code did it."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_dlperf.core.arm import PackagesArm
from pytest_dlperf.core.baseline import Session
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import BudgetSpentError, CaseError, DlperfError
from pytest_dlperf.core.measurement import Environment, short_commit
from pytest_dlperf.core.outcome import PackagePairs
from pytest_dlperf.core.packages import PackageChange
from pytest_dlperf.core.verdict import GOOD, NEVER, WITH_PACKAGES, Judgement, Verdict
from pytest_dlperf.flow.ab import compare_arms
from pytest_dlperf.flow.bench import PACKAGES_OF_BEFORE
from pytest_dlperf.flow.environment_change import EnvironmentChange, environment_change, words_of
from pytest_dlperf.flow.looks import Measured
from pytest_dlperf.judge.two_stages import decided_by_packages, decided_by_pairs
from pytest_dlperf.judge.verdict import with_finding
from pytest_dlperf.launch.arms.environment import Package, Side, interpreter_side, packages_in
from pytest_dlperf.launch.arms.git import top_of
from pytest_dlperf.launch.arms.package_search import Group, groups_of, search

if TYPE_CHECKING:
    from pytest_dlperf.flow.bench import Bench

#: Packages that a command names; the first brings what it needs.
_NAMED: Final = 3


def change_since(
    case: Case, bench: Bench, session: Session, environment: Environment
) -> EnvironmentChange:
    """Return what else than the code changed since ``session``; raise ``DlperfError``."""
    packages = bench.stored.packages_since(session, environment)
    own: frozenset[str] = frozenset()
    if packages and not bench.hosts.place.foreign:
        top = top_of(bench.hosts.rootdir)
        own = frozenset(
            name
            for name, package in interpreter_side(bench.hosts.place.python).packages.items()
            if package.folder and Path(package.folder).resolve().is_relative_to(top)
        )
    return environment_change(case, session, environment, packages, own=own)


def is_asked_for(bench: Bench, stored: Judgement, change: EnvironmentChange) -> bool:
    """Return whether pairs with other packages are to say what ``stored`` is due to."""
    is_wanted = bench.policy.confirm == WITH_PACKAGES and stored.verdict not in GOOD
    return is_wanted and bool(change.exchanged or change.are_packages_unknown)


class _UndecidedError(DlperfError):
    """Pairs with some of the packages do not decide."""


@dataclass(frozen=True, kw_only=True)
class ByPackages:
    """The pairs of a case with the packages of a stored session."""

    case: Case
    bench: Bench
    session: Session
    #: What else than the code changed since.
    change: EnvironmentChange
    workload_folder: str
    #: How long a pair may take: none begins that would not end within the budget.
    pair_s: float = 0.0

    def decide(self, stored: Judgement, code: Judgement) -> tuple[Judgement, PackagePairs]:
        """Return the verdict, and what the pairs showed; ``code`` is that of pairs of the code.

        Where no pair is possible, ``stored`` stays.
        """
        try:
            self._check_possible()
            paired = self._compare(self._exchanged, PACKAGES_OF_BEFORE)
            self._check_packages(paired)
        except BudgetSpentError:
            return self._without_pairs(stored, code, self._spent)
        except DlperfError as error:
            return self._without_pairs(stored, code, f"{error}")
        assert paired.against is not None
        slower, undecided, search_pairs = self._exchanged, "", 0
        if paired.judgement.speed_verdict is Verdict.REGRESSED:
            slower, undecided, search_pairs = self._slower(paired.judgement)
        stay = tuple(p for p in self.change.packages if p not in self._exchanged)
        left = replace(self.change, packages=stay, framework=None)
        judgement = decided_by_packages(
            stored,
            code,
            paired.judgement,
            changed=words_of(slower),
            environment=left.without_that_of(self.session, paired.against.software).words,
            undo=_command(slower),
        )
        if undecided:
            judgement = with_finding(judgement, "packages-undecided", text=undecided)
        return judgement, PackagePairs(
            pairs=paired.judgement,
            against=paired.against,
            measurement=paired.measurement,
            search_pairs=search_pairs,
            slower=slower if paired.judgement.verdict is Verdict.REGRESSED else (),
            undecided=undecided,
        )

    def _without_pairs(
        self, stored: Judgement, code: Judgement, why: str
    ) -> tuple[Judgement, PackagePairs]:
        against = short_commit(self.session.commit)
        both = decided_by_pairs(
            stored,
            code,
            against=against,
            environment=self.change.words,
            unknown=self.change.unknown,
        )
        judgement = with_finding(both, "no-pairs-with-packages", text=why)
        return judgement, PackagePairs(impossible=why)

    def _check_possible(self) -> None:
        """Raise ``CaseError`` where the packages of before cannot be installed here."""
        if self.bench.hosts.place.foreign:
            raise CaseError("the environment behind --dlperf-prefix cannot be changed from here")
        if self.change.are_packages_unknown:
            raise CaseError("their list is not in the folder of baselines any more")
        before = self.session.software.get("python", "").split(".")[:2]
        now = [str(number) for number in self._here.version]
        if before != [""] and before != now:
            raise CaseError(
                f"it ran on Python {'.'.join(before)}, and this is {'.'.join(now)}: packages can "
                "be exchanged in one version only"
            )
        if not self._exchanged:
            names = ", ".join(package.name for package in self.change.exchanged)
            raise CaseError(f"editable packages cannot be exchanged ({names})")

    @cached_property
    def _here(self) -> Side:
        return interpreter_side(self.bench.hosts.place.python)

    @cached_property
    def _exchanged(self) -> tuple[PackageChange, ...]:
        """The packages that get the version of before; an editable one stays as it is."""
        here = self._here.packages
        return tuple(
            package
            for package in self.change.exchanged
            if package.name not in here or here[package.name].requirement
        )

    def _compare(
        self, packages: Collection[PackageChange], folder: str, bench: Bench | None = None
    ) -> Measured:
        budget = self.bench.policy.budget
        if budget is not None and not budget.allows(self.pair_s):
            raise BudgetSpentError(self.case.id)
        pairs = (bench or self.bench).in_pairs(_arm(packages), folder)
        self.bench.watcher.notice(self.case, f"pairs with {_arm(packages).name}")
        return compare_arms(self.case, pairs, workload_folder=self.workload_folder)

    def _check_packages(self, paired: Measured) -> None:
        """Raise ``CaseError`` if the ranks of the other arm had another version than asked for."""
        for package in self._exchanged if paired.packages_before else ():
            version = paired.packages_before.get(package.name)
            if version != package.before:
                raise CaseError(
                    f"{package.name} {package.before} was installed, and the ranks had "
                    f"{version or 'none'}; "
                    "something puts another folder before it on their path"
                )

    def _slower(self, judgement: Judgement) -> tuple[tuple[PackageChange, ...], str, int]:
        """Return what makes the case slower, why no single ones are known, and the pairs of it."""
        by_name = {package.name: package for package in self._exchanged}
        why = "which of the packages it is, pairs do not say"
        assert self.bench.arms is not None
        try:
            before = packages_in(Path(self.bench.arms.ready(_arm(self._exchanged)).overlay))
        except DlperfError as error:
            return self._exchanged, f"{why}: {error}", 0
        now = {
            name: self._here.packages.get(name)
            or Package(name=name, version=package.now, requirement=f"{name}=={package.now}")
            for name, package in by_name.items()
            if package.now is not None
        }
        groups = groups_of(list(by_name), before, now)
        # What halves of them do is certainly more than half of it, or certainly less
        half = -(judgement.throughput.change or 0.0) / 2
        policy = self.bench.policy
        rule = replace(policy.rule, tolerance=half, min_effect=half)
        bench = replace(self.bench, policy=replace(policy, rule=rule, explain=NEVER))
        asked = pairs = 0

        def is_slower(some: Sequence[Group]) -> bool:
            nonlocal asked, pairs
            names = [name for group in some for name in group]
            if len(names) == len(by_name):
                return True
            asked += 1
            chosen = [by_name[name] for name in names]
            paired = self._compare(chosen, f"{PACKAGES_OF_BEFORE}/{asked}", bench)
            assert paired.measurement is not None
            pairs += len(paired.measurement.runs) + len(paired.measurement.disturbed_runs)
            verdict = paired.judgement.speed_verdict
            if verdict not in {*GOOD, Verdict.REGRESSED}:
                raise _UndecidedError(f"{words_of(chosen)}: {paired.judgement.reason}")
            return verdict is Verdict.REGRESSED

        try:
            slowing = search(groups, is_slower)
        except BudgetSpentError:
            return self._exchanged, f"{why}: {self._spent}", pairs
        except DlperfError as error:
            return self._exchanged, f"{why}: {error}", pairs
        names = {name for group in slowing.groups for name in group}
        return tuple(package for package in self._exchanged if package.name in names), "", pairs

    @property
    def _spent(self) -> str:
        return f"the budget of {self.bench.policy.budget_text} was spent"


def _arm(packages: Collection[PackageChange]) -> PackagesArm:
    return PackagesArm(
        requirements=tuple(f"{package.name}=={package.before}" for package in packages)
    )


def _command(packages: Sequence[PackageChange]) -> str:
    """Return the command that installs the version of before; the first brings what it needs."""
    named = packages if len(packages) <= _NAMED else packages[:1]
    return shlex.join(
        ["pip", "install", *(f"{package.name}=={package.before}" for package in named)]
    )
