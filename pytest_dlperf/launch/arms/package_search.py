"""Which of several packages makes an environment slower: a halving of those that differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from pytest_dlperf.launch.arms.environment import Package

#: Names of packages that move together.
Group = tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What a search ended with; no groups: the other environment is not slower."""

    groups: tuple[Group, ...]

    @property
    def is_together(self) -> bool:
        """Whether it takes several groups: none of them alone was shown to be slower."""
        return len(self.groups) > 1


def changed(before: Mapping[str, Package], now: Mapping[str, Package]) -> list[str]:
    """Return the names of packages whose version differs, or that one side alone has."""
    names = sorted({*before, *now})
    return [
        name
        for name in names
        if name not in before or name not in now or before[name].version != now[name].version
    ]


def groups_of(
    names: Sequence[str], before: Mapping[str, Package], now: Mapping[str, Package]
) -> list[Group]:
    """Return ``names`` in groups: two that cannot be of different sides are in one."""
    group = {name: {name} for name in names}
    for name in names:
        for side, opposite in ((before, now), (now, before)):
            if name not in side:
                continue
            for needed in _unmet(side[name], opposite):
                if needed in group and group[needed] is not group[name]:
                    merged = group[name] | group[needed]
                    group.update(dict.fromkeys(merged, merged))
    return sorted({tuple(sorted(names_of_group)) for names_of_group in group.values()})


def _unmet(package: Package, opposite: Mapping[str, Package]) -> list[str]:
    """Return what ``package`` requires and ``opposite`` does not have in such a version."""
    unmet = []
    for text in package.requires:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        name = canonicalize_name(requirement.name)
        version = opposite[name].version.partition("@")[0] if name in opposite else None
        if version is None or not requirement.specifier.contains(version, prereleases=True):
            unmet.append(str(name))
    return unmet


def search(groups: Sequence[Group], is_slower: Callable[[Sequence[Group]], bool]) -> Found:
    """Return the group that makes the environment slower, by ``is_slower`` of some groups alone.

    At most ``ceil(log2(n)) + 1`` questions for ``n`` groups of which one is slower; one more
    where none is alone. Whatever ``is_slower`` raises ends the search.
    """
    suspects, known_slower = list(groups), False
    smallest: Sequence[Group] = ()
    while len(suspects) > 1:
        half = suspects[: (len(suspects) + 1) // 2]
        known_slower = is_slower(half)
        suspects = half if known_slower else suspects[len(half) :]
        smallest = half if known_slower else smallest
    if not suspects or known_slower or is_slower(suspects):
        return Found(groups=tuple(suspects))
    if not smallest and len(groups) > 1 and is_slower(groups):
        smallest = groups
    return Found(groups=tuple(smallest))
