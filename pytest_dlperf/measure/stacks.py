"""The stacks that ranks wrote when they got SIGTERM or crashed: what each of them waited for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pytest_dlperf.core.wire import rank_of_file
from pytest_dlperf.measure.records import files_of_ranks

#: What faulthandler writes: a head for each thread, then its calls, the innermost first.
_THREAD: Final = re.compile(r"(?:Current thread|Thread) (0x[0-9a-f]+)")
_CALL: Final = re.compile(r'  File "(.*)", line (\d+) in (.+)')
_CRASH: Final = re.compile(r"Fatal Python error: (.+)")
#: Files of frameworks in which a rank waits for the others. The all-reduce of a wrapped model is
#: waited for within the backward pass, which the stack of Python does not look into. Who waits for
#: its own GPU waits for a collective there, or for its own work: the iteration says which.
_WAITS: Final = re.compile(
    r"torch/(?:distributed|autograd|nn/parallel|cuda|amp)/|horovod/"
    r"|paddle/(?:distributed|fluid/distributed|device)/|paddle/(?:base|fluid)/dygraph/"
    r"|tensorflow/python/(?:distribute|eager)/"
    r"|jax/_src/(?:array|api|distributed|pjit|interpreters/pxla)\.py"
)
#: Methods in C that wait for a GPU. The stack of Python ends in the line that calls them.
_READS_DEVICE: Final = re.compile(r"\.(?:item|tolist|cpu|numpy|synchronize)\(")
#: Files in which JAX compiles, below those in which it waits: who compiles waits for nobody.
_COMPILES: Final = re.compile(r"jax/_src/(?:compiler|interpreters/(?:mlir|partial_eval))\.py")
#: Below these a file is a library's, not the user's.
_LIBRARY: Final = re.compile(
    r"^<|/(?:site|dist)-packages/|/lib/python3\.\d+/|pytest_dlperf/worker/"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Stack:
    """The calls of a rank's main thread when it was ended, or crashed."""

    #: File, line and function, the innermost first.
    calls: tuple[tuple[str, int, str], ...]
    #: Why it crashed; empty if it was ended.
    crash: str = ""

    @property
    def waits(self) -> bool:
        """Whether its calls were in code where ranks wait for each other."""
        files = [file for file, _, _ in self._until_own()]
        return any(map(_WAITS.search, files)) and not any(map(_COMPILES.search, files))

    @property
    def place(self) -> str:
        """Words for its innermost call, and for the user's own call that led to it."""
        if not self.calls:
            return "outside Python"
        innermost, own = self.calls[0], self._own()
        text = _stack_words(innermost)
        return (
            text if own is None or own == innermost else f"{text}, called from {_stack_words(own)}"
        )

    def device_read(self, until_s: float) -> str:
        """Return the source of the innermost call, if it is the user's and waits for a GPU.

        Else an empty text, also where this host does not have the source as it was at ``until_s``
        (since the epoch).
        """
        if not self.calls or self._own() != self.calls[0]:
            return ""
        file, number, _ = self.calls[0]
        try:
            if Path(file).stat().st_mtime > until_s:
                return ""
            lines = Path(file).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return ""  # of another host, or a container's
        line = lines[number - 1].strip() if 0 < number <= len(lines) else ""
        return line if _READS_DEVICE.search(line) else ""

    def _own(self) -> tuple[str, int, str] | None:
        return next((call for call in self.calls if not _LIBRARY.search(call[0])), None)

    def _until_own(self) -> tuple[tuple[str, int, str], ...]:
        own = self._own()
        return self.calls if own is None else self.calls[: self.calls.index(own)]


def read_stacks(folder: Path) -> dict[int, Stack]:
    """Return the stacks of the ranks that got SIGTERM or crashed, by rank."""
    found = {}
    for path in files_of_ranks(folder, "stack"):
        stack = _parse(path.read_text(encoding="utf-8", errors="replace"))
        if stack is not None:
            found[rank_of_file(path.name)] = stack
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
            # A second signal interrupts the first stack; the last stack is whole.
            is_main = int(thread[1], 16) == main
            calls = [] if is_main else calls
        elif is_main and (call := _CALL.match(line)):
            calls.append((call[1], int(call[2]), call[3]))
    if not threads and crash is None:
        return None
    return Stack(calls=tuple(calls), crash=crash[1] if crash else "")


def _stack_words(call: tuple[str, int, str]) -> str:
    file, line, function = call
    return f"{function} ({file}, line {line})"
