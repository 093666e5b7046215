"""``dlperf bisect-environment``: which package makes a case slower in another environment."""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pytest_dlperf.cli.parser import add_workdir
from pytest_dlperf.cli.pytest_session import against_words, is_slower, run_session, selection
from pytest_dlperf.cli.stdout import say, say_error
from pytest_dlperf.core.errors import DlperfError, UsageError
from pytest_dlperf.core.quantity import parse_duration, parse_share
from pytest_dlperf.flow.budget import Budget
from pytest_dlperf.launch.arms.environment import Side, make_environment, side_of
from pytest_dlperf.launch.arms.package_search import Group, changed, groups_of, search
from pytest_dlperf.store.baseline.replace_file import replace_file

NAME: Final = "bisect-environment"
_LIMIT: Final = "3%"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.usage = (
        f"dlperf {NAME} [-h] --a A --b B [--limit SHARE] [--budget TIME] CASE [-- WORDS ...]"
    )
    parser.description = (
        "Measures the case in pairs: A with some packages of B, against A. The same command goes "
        "on where it was ended. Exit codes: 0 it is found, 1 it is not, 2 wrong usage."
    )
    for name, of in (("a", "the fast environment"), ("b", "the slow one")):
        parser.add_argument(
            f"--{name}",
            required=True,
            metavar=name.upper(),
            help=f"{of}: an interpreter, or a file of requirements that ends in .txt",
        )
    parser.add_argument(
        "--limit", default=_LIMIT, metavar="SHARE", help="what is slower by more counts (3%%)"
    )
    parser.add_argument("--budget", metavar="TIME", help="such as 2h: no comparison begins after")
    add_workdir(parser, "folder of answers and environments")
    parser.add_argument("case", metavar="CASE", help="case id, or pytest's node id of it")
    parser.add_argument(
        "words", nargs="*", metavar="-- WORDS", help="more for pytest: paths and options"
    )
    parser.set_defaults(run=bisect)


class _EndedError(DlperfError):
    """The search ends before it has found anything; the message says why, and how to go on."""


def bisect(arguments: argparse.Namespace) -> int:
    """Search for the packages, print them, and return the exit code.

    Raises ``DlperfError`` for sides that cannot be read.
    """
    share = parse_share(arguments.limit, what="--limit")
    before, now = side_of(arguments.a, what="--a"), side_of(arguments.b, what="--b")
    groups = _groups(before, now)
    search_of = _Search(
        before=before,
        now=now,
        words=(*selection(arguments.case), *arguments.words),
        share=share,
        budget=_budget(arguments.budget),
        folder=arguments.workdir.absolute() / NAME,
    )
    try:
        slower = search(groups, search_of.is_slower)
    except _EndedError as error:
        _print_to_stderr(str(error))
        return 1
    finally:
        search_of.remove_environments()
    if not slower.groups:
        say(f"the packages of {arguments.b} are not slower than those of {arguments.a}")
        return 1
    together = "only together: " if slower.is_together else ""
    say(f"slower: {together}{_words(slower.groups, before, now)}")
    return 0


def _groups(before: Side, now: Side) -> list[Group]:
    """Return what can be exchanged; name what differs and cannot."""
    if before.version != now.version:
        raise UsageError(
            f"--a has Python {'.'.join(map(str, before.version))}, and --b "
            f"{'.'.join(map(str, now.version))}; packages can be exchanged in one version only"
        )
    names = changed(before.packages, now.packages)
    stay = [name for name in names if not _can_move(name, before, now)]
    if stay:
        _print_to_stderr(f"differ, and stay as they are in --a: {', '.join(stay)}")
    groups = groups_of([n for n in names if n not in stay], before.packages, now.packages)
    if not groups:
        raise UsageError("--a and --b have the same packages; there is nothing to search")
    _print_to_stderr(f"{len(groups)} groups of packages differ: {_words(groups, before, now)}")
    return groups


def _can_move(name: str, before: Side, now: Side) -> bool:
    if name in now.packages:
        return bool(now.packages[name].requirement)
    return name in before.over and name not in now.packages


def _budget(text: str | None) -> Budget | None:
    return None if text is None else Budget.starting_now(parse_duration(text, what="--budget"))


@dataclass(kw_only=True)
class _Search:
    """Answers by sessions of pytest, each kept as soon as it is known."""

    before: Side
    now: Side
    words: tuple[str, ...]
    share: float
    budget: Budget | None
    folder: Path
    longest_s: float = field(default=0.0, init=False)
    compared: int = field(default=0, init=False)
    _fast: str = field(default="", init=False)

    def is_slower(self, groups: Sequence[Group]) -> bool:
        """Return whether A with these packages of B is slower than A; raise ``_EndedError``."""
        names = sorted(name for group in groups for name in group)
        answers = self._answers()
        for answer in answers:
            if answer["packages"] == names:
                _print_to_stderr(f"{', '.join(names)}: known: {_slower(answer['slower'])}")
                return bool(answer["slower"])
        if self.budget is not None and not self.budget.allows(self.longest_s):
            raise _EndedError(
                f"the budget of {self.budget.text} is spent; the same command goes on"
            )
        began_s = time.monotonic()
        answer = {"packages": names, "slower": self._compare(names)}
        self.longest_s = max(self.longest_s, time.monotonic() - began_s)
        self._keep([*answers, answer])
        self.compared += 1
        _print_to_stderr(
            f"comparison {self.compared}: {', '.join(names)}: {_slower(answer['slower'])}"
        )
        return bool(answer["slower"])

    def _compare(self, names: Sequence[str]) -> bool:
        fast = self._fast = self._fast or self._environment("a", ())
        mixed = self._environment("mixed", names)
        words = [*self.words, *against_words(fast, self.share)]
        session = run_session(words, where=Path.cwd(), python=mixed, on_stderr=True)
        if len(session.outcomes) != 1:
            raise _EndedError(
                f"{len(session.outcomes)} cases were measured, and not one (see above); words "
                "behind -- say where the test is and which case of it"
            )
        answer = is_slower(session.outcomes[0])
        if answer is None:
            judgement = session.outcomes[0].judgement
            raise _EndedError(
                f"with {', '.join(names)} of --b the pairs do not decide: {judgement.verdict}: "
                f"{judgement.reason}\nThe same command asks again; --dlperf-max-runs=40 behind -- "
                "allows more pairs"
            )
        return answer

    def _environment(self, word: str, names: Sequence[str]) -> str:
        """Return the interpreter of A with packages of B; A itself where nothing is to be made."""
        over = {n: self.before.packages[n].requirement for n in self.before.over}
        for name in names:
            if name in self.now.packages:
                over[name] = self.now.packages[name].requirement
            else:
                over.pop(name, None)
        if not over:
            return self.before.python
        return make_environment(self.before, over.values(), self.folder / self._key / word)

    @property
    def _key(self) -> str:
        sides = [
            [side.python, *sorted(f"{p.name} {p.version}" for p in side.packages.values())]
            for side in (self.before, self.now)
        ]
        text = json.dumps([sides, self.words, self.share])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def _answers(self) -> list[dict[str, Any]]:
        file = self.folder / f"{self._key}.json"
        if not file.exists():
            return []
        try:
            answers: list[dict[str, Any]] = json.loads(file.read_text("utf-8"))["answers"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{file} cannot be read ({error}); remove it") from error
        return answers

    def _keep(self, answers: Sequence[dict[str, Any]]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        content = json.dumps({"format": 1, "answers": answers}, indent=1)
        replace_file(self.folder / f"{self._key}.json", content.encode())

    def remove_environments(self) -> None:
        """Remove what was installed; the answers stay."""
        shutil.rmtree(self.folder / self._key, ignore_errors=True)


def _words(groups: Sequence[Group], before: Side, now: Side) -> str:
    def versions(name: str) -> str:
        old, new = (side.packages.get(name) for side in (before, now))
        return f"{name} {old.version if old else 'missing'} to {new.version if new else 'missing'}"

    return "; ".join(", ".join(map(versions, group)) for group in groups)


def _slower(answer: bool) -> str:
    return "slower" if answer else "not slower"


def _print_to_stderr(words: str) -> None:
    say_error(f"dlperf {NAME}: {words}")
