"""What a command writes: lines and JSON, on streams that no text from outside steers."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from pytest_dlperf.report.printable import shown


def say(text: str) -> None:
    """Print ``text`` and a line end."""
    sys.stdout.write(f"{text}\n")


def say_error(text: str) -> None:
    """Print ``text`` and a line end on standard error."""
    sys.stderr.write(f"{text}\n")


def say_json(values: Any) -> None:
    """Print ``values`` as JSON with sorted keys."""
    say(json_text(values))


def json_text(values: Any) -> str:
    """Return ``values`` as JSON with sorted keys, in which ``shown`` finds nothing to escape.

    JSON's own escapes are exact; those of ``shown`` would make other strings of it, or none.
    """
    text = json.dumps(values, indent=1, sort_keys=True, allow_nan=False)
    text = text.replace("\x7f", r"\u007f")
    return re.sub(r"(##\w{0,32})\[", r"\1\\u005b", text)


@contextmanager
def escaped() -> Iterator[None]:
    """Escape all that is written to standard output and standard error meanwhile.

    Results files, logs, names of nodes and of files, and what was typed are texts from outside: a
    command need not know which of its words are.
    """
    streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = lines = EscapedLines(streams[0]), EscapedLines(streams[1])
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams
        for one in lines:
            one.end()


class EscapedLines(io.TextIOBase):
    """Writes each line to another stream, once it is whole and ``shown``.

    What that stream's encoding lacks is escaped too.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._begun = ""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of the other stream."""
        return self._stream.encoding or "utf-8"

    def writable(self) -> bool:
        """Return that it can be written."""
        return True

    def isatty(self) -> bool:
        """Whether the other stream is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Return the other stream's descriptor, for processes that write to it themselves."""
        self.flush()
        return self._stream.fileno()

    def write(self, text: str) -> int:
        """Write the lines that ``text`` ends, and keep what it begins."""
        whole, end, begun = (self._begun + text).rpartition("\n")
        self._begun = begun
        if end:
            self._write(f"{whole}\n")
        return len(text)

    def flush(self) -> None:
        """Flush the whole lines: the begin of a line alone does not show what it would be."""
        self._unless_nobody_reads(self._stream.flush)

    def end(self) -> None:
        """Write a last line without an end, and flush."""
        self._write(self._begun)
        self._begun = ""
        self.flush()

    def _write(self, text: str) -> None:
        made = shown(text).encode(self.encoding, "backslashreplace").decode(self.encoding)
        self._unless_nobody_reads(lambda: self._stream.write(made))

    def _unless_nobody_reads(self, do: Callable[[], object]) -> None:
        """Do something with the stream; where its reader has gone, as ``head`` does, drop all.

        The command goes on: its exit code says what it found.
        """
        try:
            do()
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
