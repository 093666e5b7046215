"""Arms: the two sides of an interleaved A/B, as the user names them and as they are measured."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.measurement import short_commit
from pytest_dlperf.core.secret_texts import MASK, SECRET_NAME

ArmKind = Literal["here", "ref", "requirement", "interpreter", "settings"]
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(?!=)(.*)", re.S)
#: ``name`` with extras and a version, or with its URL (PEP 508).
_REQUIREMENT: Final = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*\s*(\[[^\]]*\])?"
    r"(\s*(==|!=|~=|>=|<=|<|>).+|\s+@\s+\S.*|\s*@\s*[a-z+]+://.+)",
    re.S,
)
_EXTRAS: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\[[^\]]+\]")
#: A URL alone, which pip accepts too; a git ref never contains a colon.
_URL: Final = re.compile(r"([a-z]+\+)?(https?|file|ssh|git)://\S+")
_ARCHIVES: Final = (".whl", ".tar.gz", ".zip")
_INTERPRETER: Final = re.compile(r"(\.{0,2}|~)/.*|(.*/)?python[0-9.]*")
_MERGE_BASE: Final = "merge-base:"
#: A whole hash of SHA-1 or SHA-256.
_COMMIT: Final = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
#: Variables that a launch plan sets itself.
_OURS: Final = frozenset(
    {
        "PYTHONPATH", "DLPERF_RUN", "DLPERF_MARK", "DLPERF_TREES", "DLPERF_MODULES",
        "DLPERF_PADDING",
    }
)  # fmt: skip
KINDS: Final = (
    "a git ref (HEAD, v1.2), merge-base:BRANCH, a requirement ('torch==2.13.0'), the path of a "
    "Python interpreter, or settings of the environment (OMP_NUM_THREADS=2)"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class HereArm:
    """The current environment and working tree."""

    kind: Literal["here"] = "here"

    @property
    def name(self) -> str:
        """The arm, as the user named it."""
        return "this environment"


@dataclass(frozen=True, kw_only=True, slots=True)
class RefArm:
    """A commit of the repository; with ``base_of`` the merge base of HEAD and that branch."""

    ref: str
    base_of: bool = False
    kind: Literal["ref"] = "ref"

    @property
    def name(self) -> str:
        """The arm, as the user named it; the beginning of a whole commit."""
        if self.base_of:
            return f"{_MERGE_BASE}{self.ref}"
        return short_commit(self.ref) if _COMMIT.fullmatch(self.ref) else self.ref


@dataclass(frozen=True, kw_only=True, slots=True)
class RequirementArm:
    """The current environment, with one requirement installed over it."""

    requirement: str
    kind: Literal["requirement"] = "requirement"

    @property
    def name(self) -> str:
        """The arm, as the user named it."""
        return self.requirement


@dataclass(frozen=True, kw_only=True, slots=True)
class PackagesArm:
    """The current environment, with these packages over it, and nothing that they need."""

    #: Each is ``name==version``.
    requirements: tuple[str, ...]
    kind: Literal["requirement"] = "requirement"

    @property
    def name(self) -> str:
        """The first one, and how many more there are."""
        first, *further = self.requirements
        return f"{first} and {len(further)} more" if further else first


@dataclass(frozen=True, kw_only=True, slots=True)
class InterpreterArm:
    """Another interpreter, with its own packages."""

    python: str
    kind: Literal["interpreter"] = "interpreter"

    @property
    def name(self) -> str:
        """The arm, as the user named it."""
        return self.python


@dataclass(frozen=True, kw_only=True, slots=True)
class SettingsArm:
    """The current environment, with variables set."""

    variables: tuple[tuple[str, str], ...]
    kind: Literal["settings"] = "settings"

    @property
    def name(self) -> str:
        """The arm for people, with values masked whose names look secret.

        All others are shown, unlike those of a prefix: they are the difference of the arms.
        """
        shown = (
            f"{name}={MASK}" if SECRET_NAME.search(name) else shlex.quote(f"{name}={value}")
            for name, value in self.variables
        )
        return " ".join(shown)


Arm = HereArm | RefArm | RequirementArm | PackagesArm | InterpreterArm | SettingsArm


def parse_arm(text: str, *, what: str) -> Arm:
    """Return the arm that ``text`` names; ``what`` is the option, for ``UsageError``."""
    words = text.strip()
    if not words:
        raise UsageError(f"{what}: it is empty; give {KINDS}")
    patterns = (_REQUIREMENT, _EXTRAS, _URL)
    if words.endswith(_ARCHIVES) or any(pattern.fullmatch(words) for pattern in patterns):
        return RequirementArm(requirement=words)
    if _ASSIGNMENT.match(words):
        return SettingsArm(variables=_variables(words, what))
    if words.startswith(_MERGE_BASE):
        return _ref(words.removeprefix(_MERGE_BASE), what, base_of=True)
    if _INTERPRETER.fullmatch(words):
        return InterpreterArm(python=words)
    return _ref(words, what, base_of=False)


def _ref(ref: str, what: str, *, base_of: bool) -> RefArm:
    # git would read a dash as an option, and refuses the other characters in a name.
    if not ref or ref.startswith("-") or re.search(r"[\s\\\x00-\x1f]|\.\.", ref):
        raise UsageError(f"{what}={_MERGE_BASE if base_of else ''}{ref}: not an arm; give {KINDS}")
    return RefArm(ref=ref, base_of=base_of)


def _variables(text: str, what: str) -> tuple[tuple[str, str], ...]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{what}={text}: {error}; quote it as in a shell") from error
    variables: dict[str, str] = {}
    for word in words:
        match = _ASSIGNMENT.fullmatch(word)
        if match is None:
            raise UsageError(
                f"{what}={text}: {word!r} does not set a variable; write NAME=VALUE, several with "
                "spaces between, and quote a value with spaces"
            )
        if match[1] in _OURS:
            raise UsageError(
                f"{what}={text}: {match[1]} is set for the ranks by this tool; it cannot be an arm"
            )
        if match[1] in variables:
            raise UsageError(f"{what}={text}: {match[1]} is set twice")
        variables[match[1]] = match[2]
    return tuple(variables.items())


@dataclass(frozen=True, kw_only=True, slots=True)
class Tree:
    """The repository's own tree, and the tree of an arm that replaces it."""

    head: str
    arm: str

    def moved(self, path: str) -> str:
        """Return ``path`` in the arm's tree; unchanged where it is not part of the repository.

        Packages that are installed below the repository (a ``.venv`` in it) are not part of it.
        """
        inside = path == self.head or path.startswith(f"{self.head.rstrip('/')}/")
        if not inside or "site-packages" in path.split("/"):
            return path
        return self.arm + path[len(self.head.rstrip("/")) :]


@dataclass(frozen=True, kw_only=True, slots=True)
class Reported:
    """The imports that ranks report: those from trees, and installed copies of modules in them."""

    trees: tuple[str, ...] = ()
    #: File with the names of the repository's modules in any of the trees; empty for none.
    modules_file: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadyArm:
    """An arm that is ready to be measured: everything that it changes for the ranks."""

    name: str
    kind: ArmKind
    #: The commit of a ref; empty for the rest.
    commit: str = ""
    tree: Tree | None = None
    #: Another interpreter; empty for the session's own.
    python: str = ""
    #: Folder with packages that come before those of the interpreter; empty for none.
    overlay: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """The arm for people, with its commit; one that is named by its commit has no other."""
        if not self.commit or self.commit.startswith(self.name):
            return self.name
        return f"{self.name} (commit {short_commit(self.commit)})"
