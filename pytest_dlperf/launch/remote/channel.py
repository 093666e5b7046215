"""Near end of a channel to a node, which runs one command there. Standard library only.

The channel is a process of ssh or srun, or a local one for this host. The source of the far end
(``far_side.py``) is sent first. The far end then reads messages, a line of JSON each, and answers
in frames: a letter, the length in hexadecimal digits, a line feed, and the data. ``messages.py``
has what is JSON.

=====  =====================================================
frame  holds
=====  =====================================================
``H``  host name, clock, a free port, whether files are shared
``O``  output of the command
``T``  a piece of the archive of its records
``W``  who holds the node's lease
``L``  nothing: the lease is held
``R``  an answer to the referee of a pair, or a report of a rank to it
``E``  how the command ended
=====  =====================================================
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import re
import select
import shlex
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Final, cast

from pytest_dlperf.core.place import Reach
from pytest_dlperf.core.writable import line_begin
from pytest_dlperf.launch.remote.far_side import BEGIN
from pytest_dlperf.launch.remote.messages import (
    CommandEnd,
    Greeting,
    Hello,
    HelloReceived,
    Nonce,
    ReachRecord,
    Request,
    TurnLine,
)
from pytest_dlperf.launch.turns.lines import Lines

_PACKAGE: Final = Path(__file__).resolve().parents[2]
#: Modules of the far end, each after those that it imports.
_SENT: Final = (
    "core.errors",
    "core.runtime_folder",
    "core.wire",
    "launch.process.lease",
    "launch.remote.messages",
    "launch.remote.network",
    "launch.process.tree",
    "launch.process.left_over",
    "launch.turns.states",
    "launch.turns.cgroup",
    "launch.turns.guard",
    "launch.turns.freezer",
    "launch.turns.lines",
    "launch.turns.node",
    "launch.remote.far_side",
)
_BEAT_S: Final = 2.0
_CHUNK: Final = 1 << 16
_HEADER: Final = re.compile(rb"([A-Z])([0-9a-f]+)\n")
#: A name as Linux takes it, but for what is special to a shell, Open MPI or Horovod; or none.
_INTERFACE: Final = re.compile(r"[A-Za-z0-9_.@-]{0,15}")
#: Program of the far end: reads the length of its source, then the source, and runs it.
_BOOT: Final = """
import os, sys
def read(size):
    data = b""
    while len(data) < size:
        piece = os.read(0, size - len(data))
        if not piece:
            sys.exit(255)
        data += piece
    return data
digits = read(1)
while not digits.endswith(b"\\n"):
    digits += read(1)
exec(compile(read(int(digits)), "dlperf", "exec"))
"""


class Channel:
    """The channel to one node, and what has come over it so far."""

    def __init__(self, reach: Reach) -> None:
        words = (reach.python, "-I", "-c", _BOOT)
        self.name = reach.name
        self.process = subprocess.Popen(
            (*reach.argv, shlex.join(words)) if reach.shell else (*reach.argv, *words),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            # pytest alone handles Ctrl-C.
            start_new_session=True,
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.output: IO[bytes] | None = self.process.stdout
        self.errors: IO[bytes] | None = self.process.stderr
        self._writing = threading.Lock()
        self._buffer = b""
        self._has_begun = False
        self._beat_s = time.monotonic()
        #: Output before the first frame and on standard error: messages of ssh.
        self.other_output = b""
        self.hello: HelloReceived | None = None
        self.heard_s = time.monotonic()
        #: When the far end closed its output.
        self.over_s = self.heard_s
        #: How the command ended; None until it did.
        self.end: CommandEnd | None = None

    def begin(self, nonce: Nonce, meet_at: str, *, clear: str = "") -> None:
        """Send the source of the far end, which then answers with a hello frame.

        ``nonce`` is the path and text of a file, by which the node finds out whether it shares
        files with this host; ``meet_at`` is the first node of the launch; processes there of the
        run folder ``clear`` are killed.
        """
        source = far_end().encode()
        self._write(b"%d\n" % len(source) + source)
        self.send({"nonce": nonce, "meet_at": meet_at, "clear": clear})

    def send(self, message: Greeting | Request | TurnLine) -> None:
        """Send one message."""
        self._write(json.dumps(message).encode() + b"\n")

    def beat(self) -> None:
        """Send a heartbeat, an empty line, if the last one is two seconds old."""
        if time.monotonic() - self._beat_s > _BEAT_S and not self.is_over:
            self._beat_s = time.monotonic()
            self._write(b"\n")

    def _write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        with self._writing, contextlib.suppress(BrokenPipeError):
            if self.process.stdin.closed:
                return
            # If the far end is gone, its output says why.
            while data:
                data = data[self.process.stdin.write(data) :]

    def close(self) -> None:
        """Close the pipe; the far end then ends what it started."""
        with self._writing:
            if self.process.stdin is not None and not self.process.stdin.closed:
                self.process.stdin.close()

    @property
    def is_over(self) -> bool:
        """Whether the far end has closed its output."""
        return self.output is None

    @property
    def is_lost(self) -> bool:
        """Whether the channel ended before the far end reported how its command ended."""
        return self.is_over and self.end is None

    @property
    def last_output(self) -> str:
        """Return the last lines that ssh or srun printed, as one line."""
        text = self.other_output.decode("utf-8", errors="replace").strip()
        lines = [line.strip() for line in text.splitlines()[-4:] if line.strip()]
        return " | ".join(line_begin(line, 400) for line in lines)

    def take_errors(self) -> None:
        """Read what is there on standard error, and keep it for ``last_output``."""
        assert self.errors is not None
        data = os.read(self.errors.fileno(), _CHUNK)
        self.other_output = (self.other_output + data)[-_CHUNK:]
        if not data:
            self.errors.close()
            self.errors = None

    def take(self) -> list[tuple[str, bytes]]:
        """Return the frames that have come; keep hello and end as attributes too."""
        assert self.output is not None
        data = os.read(self.output.fileno(), _CHUNK)
        if not data:
            self.output.close()
            self.output = None
            self.over_s = time.monotonic()
            return []
        self.heard_s = time.monotonic()
        self._buffer += data
        if not self._has_begun:
            before, found, rest = self._buffer.partition(BEGIN)
            if not found:
                return []
            self.other_output, self._buffer, self._has_begun = before[-_CHUNK:], rest, True
        return self._frames()

    def _frames(self) -> list[tuple[str, bytes]]:
        frames: list[tuple[str, bytes]] = []
        while match := _HEADER.match(self._buffer):
            end = match.end() + int(match[2], 16)
            if len(self._buffer) < end:
                break
            kind, data = match[1].decode(), self._buffer[match.end() : end]
            self._buffer = self._buffer[end:]
            try:
                if kind == "H":
                    self.hello = {**hello_from_json(data), "here": time.time()}
                elif kind == "E":
                    self.end = end_from_json(data)
                elif kind == "W":
                    _text(_values(data).get("holder"))
            except (ValueError, RecursionError) as error:
                self.refuse(error)
                return frames
            frames.append((kind, data))
        return frames

    def refuse(self, error: Exception) -> None:
        """Believe nothing of the far end any more, which sent what ``error`` says: it is lost."""
        self.other_output = f"{self.name} does not keep to the protocol: {error}".encode()
        self.close()
        if self.output is not None:
            self.output.close()
            self.output, self.over_s = None, time.monotonic()

    def kill(self) -> None:
        """Close the channel, and kill its process if that has not ended."""
        self.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for stream in (self.output, self.errors):
            if stream is not None:
                stream.close()
        self.output = self.errors = None


def hello_from_json(data: bytes) -> Hello:
    """Return what a node says that it is; raise ``ValueError`` for what no node is.

    Its words go into the commands of other nodes, where an address must not be anything else.
    """
    values = _values(data)
    if set(values) != set(Hello.__annotations__):
        raise ValueError("its greeting has other fields")
    hello = cast("Hello", values)
    if type(hello["port"]) is not int or not 0 < hello["port"] < 1 << 16:
        raise ValueError(f"{hello['port']!r} is not a port")
    if hello["address"] != "":
        ipaddress.ip_address(_text(hello["address"]))
    ipaddress.ip_network(_text(hello["network"]))
    if not _INTERFACE.fullmatch(_text(hello["interface"])):
        raise ValueError(f"{hello['interface']!r} is not a network interface")
    _text(hello["host"])
    if type(hello["time"]) is not float or type(hello["sees"]) is not bool:
        raise ValueError("its clock is not a number, or its files are neither seen nor unseen")
    return hello


def end_from_json(data: bytes) -> CommandEnd:
    """Return how a node says that its command ended; raise ``ValueError`` for anything else."""
    values = _values(data)
    if type(values.get("exit_code")) not in (int, type(None)):
        raise ValueError("its exit code is not a number")
    _text(values.get("end"))
    return cast("CommandEnd", values)


def _values(data: bytes) -> dict[str, Any]:
    values = json.loads(data)
    if not isinstance(values, dict):
        raise ValueError("a frame is not a JSON object")
    return values


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a text")
    return value


def far_end() -> str:
    """Return the source of the far end: its modules under their own names, then a call of main."""
    sources = {
        f"pytest_dlperf.{name}": (_PACKAGE / f"{name.replace('.', '/')}.py").read_text(
            encoding="utf-8"
        )
        for name in _SENT
    }
    packages = sorted(
        {".".join(name.split(".")[:depth]) for name in sources for depth in (1, 2, 3)}
        - set(sources)
    )
    return (
        "import sys, types\n"
        f"for name in {packages!r}:\n"
        "    sys.modules[name] = types.ModuleType(name)\n"
        "    sys.modules[name].__path__ = []\n"
        f"for name, source in {sources!r}.items():\n"
        "    module = sys.modules[name] = types.ModuleType(name)\n"
        "    parent, _, last = name.rpartition('.')\n"
        "    setattr(sys.modules[parent], last, module)\n"
        "    module.__package__ = parent\n"
        "    exec(compile(source, name, 'exec'), module.__dict__)\n"
        "sys.modules['pytest_dlperf.launch.remote.far_side'].main()\n"
    )


def as_exit_code(code: int) -> int:
    """Return the exit code as a shell reports it: 128 plus the number of a signal."""
    return code if code >= 0 else 128 - code


def pump(
    channels: Sequence[Channel], timeout_s: float, *, wake: Sequence[Lines] = ()
) -> list[tuple[Channel, str, bytes]]:
    """Wait for any of the channels and return the frames that came; send heartbeats to all.

    What comes from ``wake`` ends the wait, and is left there.
    """
    by_file: dict[Any, tuple[Channel, bool]] = {}
    for channel in channels:
        channel.beat()
        for stream, is_error in ((channel.output, False), (channel.errors, True)):
            if stream is not None:
                by_file[stream] = (channel, is_error)
    if not by_file:
        time.sleep(timeout_s)
        return []
    frames = []
    for stream in select.select([*by_file, *wake], [], [], timeout_s)[0]:
        if stream in wake:
            continue
        channel, is_error = by_file[stream]
        if is_error:
            channel.take_errors()
        else:
            frames += [(channel, kind, data) for kind, data in channel.take()]
    return frames


def reach_to_json(reach: Reach) -> ReachRecord:
    """Return ``reach`` as a settings file holds it."""
    return {
        "name": reach.name,
        "argv": list(reach.argv),
        "shell": reach.shell,
        "python": reach.python,
    }


def reach_from_json(values: ReachRecord) -> Reach:
    """Return the ``Reach`` that a settings file holds as JSON."""
    return Reach(
        name=values["name"],
        argv=tuple(values["argv"]),
        shell=values["shell"],
        python=values["python"],
    )
