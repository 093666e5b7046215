"""Where ranks stood when they were ended: the stacks that ``worker/stack.py`` had written."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

#: What faulthandler writes: a head for each thread, then its calls, the innermost first.
_THREAD: Final = re.compile(r"(?:Current thread|Thread) (0x[0-9a-f]+)")
_CALL: Final = re.compile(r'  File "(.*)", line (\d+) in (.+)')
_CRASH: Final = re.compile(r"Fatal Python error: (.+)")
#: Files of frameworks in which a rank waits for the others. The all-reduce of a wrapped model is
#: waited for within the backward pass, which the stack of Python does not look into.
_WAITS: Final = re.compile(
    r"torch/(?:distributed|autograd|nn/parallel)/|horovod/"
    r"|paddle/(?:distributed|fluid/distributed)/|paddle/(?:base|fluid)/dygraph/"
    r"|tensorflow/python/(?:distribute|eager)/"
)
#: Below these a file is a library's, not the user's.
_LIBRARY: Final = re.compile(
    r"^<|/(?:site|dist)-packages/|/lib/python3\.\d+/|pytest_dlperf/worker/"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Stack:
    """The calls of a rank's main thread when it was ended, or crashed."""

    #: File, line and function, the innermost first.
    calls: tuple[tuple[str, int, str], ...]
    #: What it crashed of; empty if it was ended.
    crash: str = ""

    @property
    def waits(self) -> bool:
        """Whether it stood where ranks wait for each other."""
        return any(_WAITS.search(file) for file, _, _ in self._until_own())

    @property
    def place(self) -> str:
        """Where it stood, in words: the innermost call, and the user's own that led to it."""
        if not self.calls:
            return "outside Python"
        innermost, own = self.calls[0], self._own()
        text = _words(innermost)
        return text if own is None or own == innermost else f"{text}, called from {_words(own)}"

    def _own(self) -> tuple[str, int, str] | None:
        return next((call for call in self.calls if not _LIBRARY.search(call[0])), None)

    def _until_own(self) -> tuple[tuple[str, int, str], ...]:
        own = self._own()
        return self.calls if own is None else self.calls[: self.calls.index(own)]


def read_stacks(folder: Path) -> dict[int, Stack]:
    """Return the stacks of the ranks that were told to end, or crashed; none of others."""
    found = {}
    for path in sorted(folder.glob("rank*.stack")):
        stack = _parse(path.read_text(encoding="utf-8", errors="replace"))
        if stack is not None:
            found[int(path.stem[4:])] = stack
    return found


def _parse(text: str) -> Stack | None:
    head, _, rest = text.partition("\n")
    crash = _CRASH.search(rest)
    main = int(head.split()[-1], 16) if head.startswith("main ") else None
    calls: list[tuple[str, int, str]] = []
    threads, is_main = 0, False
    for line in rest.splitlines():
        if thread := _THREAD.match(line):
            threads += 1
            # A second signal during the first stack begins it anew; the last one is whole.
            is_main = int(thread[1], 16) == main
            calls = [] if is_main else calls
        elif is_main and (call := _CALL.match(line)):
            calls.append((call[1], int(call[2]), call[3]))
    if not threads and crash is None:
        return None
    return Stack(calls=tuple(calls), crash=crash[1] if crash else "")


def _words(call: tuple[str, int, str]) -> str:
    file, line, function = call
    return f"{function} ({file}, line {line})"
