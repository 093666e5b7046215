"""Far end of a channel: run one command on its node, and end every process of it.

Standard library only, and Python 3.10: its source comes over the channel, so that a node needs
neither this package nor a shared file system. Standard input carries messages and heartbeats:
without them for 20 s the session counts as gone. Standard output carries frames; see
``channel.py``. Every process of the command is a descendant, as under ``supervisor.py``.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import functools
import io
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from pytest_dlperf.launch.process.lease import host_lease
from pytest_dlperf.launch.process.left_over import end_left_over
from pytest_dlperf.launch.process.tree import descendants, end_descendants
from pytest_dlperf.launch.remote.messages import (
    CommandEnd,
    Greeting,
    Hello,
    KeepRequest,
    LeaseHeld,
    LeaseWait,
    Nonce,
    Request,
    RunRequest,
    Surroundings,
    TurnsRequest,
)
from pytest_dlperf.launch.remote.network import identity, interface_to, network_to, own_address
from pytest_dlperf.launch.turns.freezer import PARENT_NAME, set_name
from pytest_dlperf.launch.turns.node import NodeTurns


def unpack(data: str, folder: Path) -> None:
    """Unpack the base64 archive ``data`` into ``folder``, unless that has the package already."""
    if (folder / "pytest_dlperf").exists():
        return
    partial = folder.with_name(f"{folder.name}.{os.getpid()}")
    partial.mkdir(mode=0o700, parents=True)
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(data))) as archive:
        archive.extractall(partial)
    try:
        partial.rename(folder)
    except OSError:
        shutil.rmtree(partial)  # another was first


def _readable_in(workdir: Path) -> Callable[[tarfile.TarInfo], tarfile.TarInfo | None]:
    return lambda member: member if os.access(workdir / member.name, os.R_OK) else None


def _send_back(workdir: Path, send: Callable[[bytes], None]) -> None:
    """Send the files of the run as one archive."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(read)
            with (
                os.fdopen(write, "wb") as stream,
                tarfile.open(fileobj=stream, mode="w|gz") as archive,
            ):
                # A container may have written files that this user cannot read.
                archive.add(workdir, arcname=".", filter=_readable_in(workdir))
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        while data := pipe.read(_CHUNK):
            send(data)
    os.waitpid(child, 0)


def give_records(workdir: Path, without: Iterable[str], send: Callable[[bytes], None]) -> None:
    """Send the files of a run, except those named in ``without``, and remove them here."""
    for name in without:
        (workdir / name).unlink(missing_ok=True)
    if workdir.exists():
        _send_back(workdir, send)
        shutil.rmtree(workdir, ignore_errors=True)


#: Seconds without a message or heartbeat after which the session counts as gone: a cut link does
#: not close the pipe.
SILENCE_S: Final = 20.0
_WAIT_S: Final = 0.2
#: Start marker of the frames: output before it, such as a login banner, is ignored.
BEGIN: Final = b"\0dlperf-channel\0\n"
#: Variables that a command gets from the node's own environment; the request gives all others.
KEPT: Final = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TMPDIR", "TZ",
    "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
    "XDG_RUNTIME_DIR",
)  # fmt: skip
_CHUNK: Final = 1 << 16
#: A pipe has 64 KiB, or up to 1 MiB where a process asked for it (pipe(7)).
_CHUNKS_IN_PIPE: Final = 16
_POLL_S: Final = 0.05
#: From SIGTERM to SIGKILL it takes 4 s; this is a little more.
_GRACE_S: Final = 8.0


def main() -> None:
    """Send the hello frame, read one request, and do it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # child subreaper, see supervisor.py
    set_name(PARENT_NAME)
    # Where a parent ignores it, the kernel keeps no exit codes, and a launcher's would be 0
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    asked: list[int] = []
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda received, _frame: asked.append(received))
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    pipe = Pipe()
    os.write(1, BEGIN)
    greeting: Greeting | None = pipe.wait()
    if greeting is None:
        return
    if greeting["clear"]:
        end_left_over([greeting["clear"]])
    send("H", _hello(greeting))
    request: Request | None = pipe.wait()
    try:
        if request is not None and request["kind"] == "turns":
            request = _give_turns(pipe, request, asked)
        if request is not None:
            _do(pipe, request, asked)
    except _NoTurnsError as error:
        _send_end({"exit_code": None, "end": "no-turns", "message": f"{error}"})
    except OSError as error:
        _send_end({"exit_code": None, "end": "not-started", "message": f"{error}"})


def _do(pipe: Pipe, request: Request, asked: list[int]) -> None:
    if request["kind"] == "keep":
        _keep(pipe, request)
    elif request["kind"] == "collect":
        give_records(Path(request["workdir"]), request["files"], _send_archive)
        _send_end({"exit_code": 0, "end": "exited", "killed": 0})
    elif request["kind"] == "run":
        _run(pipe, request, asked)


class Pipe:
    """Standard input as messages, a line of JSON each; an empty line is a heartbeat."""

    def __init__(self) -> None:
        self._buffer = b""
        #: What came with the message that ``wait`` returned.
        self._messages: list[Any] = []
        self._heard_s = time.monotonic()
        #: Why the session counts as gone; empty while it does not.
        self.gone = ""

    def look(self, timeout_s: float, *others: int) -> list[Any]:
        """Wait for input, or for the descriptors ``others``; return the messages that came."""
        wait_s = 0.0 if self._messages else timeout_s
        readable, _, _ = select.select([0, *others], [], [], wait_s)
        if 0 in readable:
            data = os.read(0, _CHUNK)
            if not data:
                self.gone = "pytest-gone"
            self._heard_s = time.monotonic()
            self._buffer += data
        elif time.monotonic() - self._heard_s > SILENCE_S:
            self.gone = "nothing-heard"
        *lines, self._buffer = self._buffer.split(b"\n")
        messages = [*self._messages, *(json.loads(line) for line in lines if line.strip())]
        self._messages = []
        return messages

    def wait(self) -> Any:
        """Return the next message; None if the session is gone."""
        while not self.gone:
            messages = self.look(_WAIT_S)
            if messages:
                first, *self._messages = messages
                return first
        return None


def send(kind: str, value: bytes | Hello | LeaseWait | LeaseHeld | CommandEnd) -> None:
    """Write one frame: bytes unchanged, other values as JSON. A closed pipe is ignored."""
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    frame = kind.encode() + b"%x\n" % len(data) + data
    with contextlib.suppress(BrokenPipeError):
        while frame:
            frame = frame[os.write(1, frame) :]


def _send_archive(data: bytes) -> None:
    send("T", data)


def _send_end(end: CommandEnd) -> None:
    send("E", end)


def _hello(greeting: Greeting) -> Hello:
    meet_at = greeting["meet_at"]
    with socket.socket() as free:
        free.bind(("", 0))
        port = free.getsockname()[1]
    return {
        "host": identity(),
        "time": time.time(),
        "port": port,
        "address": own_address(meet_at),
        "interface": interface_to(meet_at),
        "network": network_to(meet_at),
        "sees": _sees(greeting["nonce"]),
    }


def _sees(nonce: Nonce) -> bool:
    try:
        return Path(nonce["path"]).read_text(encoding="ascii") == nonce["text"]
    except OSError:
        return False


def _run(pipe: Pipe, request: RunRequest, asked: list[int]) -> None:
    workdir = Path(request["workdir"])
    workdir.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, text in request["files"].items():
        path = workdir / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Whole or not at all: nodes that share files write the same ones.
        partial = path.with_name(f"{path.name}.{socket.gethostname()}.{os.getpid()}")
        partial.touch(mode=0o700)
        # Names of files may have bytes that are not UTF-8
        partial.write_text(text, encoding="utf-8", errors="surrogateescape")
        partial.replace(path)
    turns = _turns_of(request)
    environment = _environment(request)
    try:
        command = subprocess.Popen(
            _behind(request["prefix"], environment, request["argv"]),
            env=environment,
            cwd=request["cwd"] or workdir,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=functools.partial(_prepare, turns),  # noqa: PLW1509 - it has one thread
        )
    except OSError as error:
        message = f"{error.filename or request['argv'][0]}: {error.strerror}"
        if turns is not None:
            turns.remove()
        shutil.rmtree(environment["TMPDIR"], ignore_errors=True)
        _send_end({"exit_code": None, "end": "not-started", "message": message})
        return
    if turns is not None:
        turns.started(command.pid)
    end = _wait_for_end(pipe, command, time.monotonic() + request["timeout_s"], asked, turns)
    if turns is not None:
        turns.close()  # what is frozen cannot end by itself
    report: CommandEnd = {
        "end": end,
        # Unknown where the command has to be ended.
        "exit_code": command.returncode,
        "alive": descendants(os.getpid()),
        "where": f"{socket.gethostname()}, {pid_namespace()}",
    }
    killed = end_descendants(gently=end != "exited", log=_Forwarded(command))
    if turns is not None:
        turns.remove()
    _forward_rest(command)
    shutil.rmtree(environment["TMPDIR"], ignore_errors=True)
    if request["send_back"]:
        give_records(workdir, request["files"], _send_archive)
    _send_end({**report, **killed})


def _prepare(turns: NodeTurns | None) -> None:
    """Have the kernel send SIGTERM to the command if this process is killed; freeze all of it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM, 0, 0, 0)  # PR_SET_PDEATHSIG
    if turns is not None:
        turns.join()


def _turns_of(request: RunRequest | TurnsRequest) -> NodeTurns | None:
    turns = request["turns"]
    if turns is None:
        return None
    try:
        return NodeTurns(Path(turns["records"]), turns["ranks"], request["workdir"])
    except OSError as error:
        message = f"{error.filename or turns['records']}: {error.strerror}"
        raise _NoTurnsError(message) from error


def _give_turns(pipe: Pipe, request: TurnsRequest, asked: list[int]) -> Request | None:
    """Give turns to ranks that are started from another node; return what is asked for next.

    None if the session is gone, or this process is asked to end.
    """
    turns = _turns_of(request)
    assert turns is not None
    try:
        while not pipe.gone and not asked:
            messages = pipe.look(_WAIT_S, *turns.reports)
            _go_on(turns, messages)
            for message in messages:
                if message["kind"] != "turn":
                    later: Request = message
                    return later
    finally:
        turns.remove()
    if asked:
        _send_end({"exit_code": None, "end": "asked-to-end"})
    return None


def _go_on(turns: NodeTurns, messages: Iterable[Any]) -> None:
    lines = [message["line"] for message in messages if message["kind"] == "turn"]
    turns.go_on(lines, lambda line: send("R", line.encode()))


def _wait_for_end(
    pipe: Pipe,
    command: subprocess.Popen[bytes],
    deadline_s: float,
    asked: list[int],
    turns: NodeTurns | None,
) -> str:
    assert command.stdout is not None
    output: tuple[int, ...] = (command.stdout.fileno(),)
    while True:
        messages = pipe.look(_POLL_S, *output, *(turns.reports if turns is not None else ()))
        if turns is not None:
            _go_on(turns, messages)
        if output and select.select(output, [], [], 0)[0]:
            data = os.read(output[0], _CHUNK)
            if data:
                send("O", data)
            else:
                output = ()
        if command.poll() is not None:
            return "exited"
        if pipe.gone:
            return pipe.gone
        if asked:
            return "asked-to-end"
        if time.monotonic() > deadline_s:
            return "timeout"


class _Forwarded:
    """The output of a command that is being ended, which is still sent on."""

    def __init__(self, command: subprocess.Popen[bytes]) -> None:
        self._command = command

    def drain(self) -> None:
        """Send what is there."""
        _forward_rest(self._command)


def pid_namespace() -> str:
    """Return the name of the PID namespace of this process; empty off Linux."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""  # not Linux


def _forward_rest(command: subprocess.Popen[bytes]) -> None:
    """Send the output that is in the pipe now; a process may go on writing without end."""
    assert command.stdout is not None
    os.set_blocking(command.stdout.fileno(), False)
    with contextlib.suppress(BlockingIOError):
        for _ in range(_CHUNKS_IN_PIPE):
            data = os.read(command.stdout.fileno(), _CHUNK)
            if not data:
                return
            send("O", data)


def _environment(given: Surroundings) -> dict[str, str]:
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    # Not in the run's folder: the path of a socket has 108 bytes at most.
    temporary = tempfile.mkdtemp(prefix="dlperf-")
    found = {**kept, "TMPDIR": temporary, **given["env"]}
    interface = interface_to(given["meet_at"]) if given["meet_at"] else ""
    for name in given["interface_variables"] if interface else ():
        found.setdefault(name, interface)
    return found


def _behind(prefix: list[str], environment: dict[str, str], argv: list[str]) -> list[str]:
    """Return the command behind a prefix, which may start a container with another environment."""
    if not prefix:
        return argv
    named = (f"{name}={text}" for name, text in sorted(environment.items()) if name not in KEPT)
    return [*prefix, "env", *named, *argv]


def _keep(pipe: Pipe, request: KeepRequest) -> None:
    """Hold a node for a case: its lease, where asked for, and the package for its ranks.

    Both stay until the last process of the case's runs is gone.
    """
    folder = Path(request["folder"])
    lease: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()
    if request["lease"]:
        lease = host_lease(request["case"], on_wait=_waiting, on_poll=lambda: _check(pipe))
    try:
        with lease:
            if request["package"]:
                unpack(request["package"], folder)
            send("L", {})
            while not pipe.gone:
                pipe.look(1.0)
            # Their own supervisor ends them, unless it was killed.
            end_left_over(request["runs"], after_s=_GRACE_S)
            if request["package"]:
                shutil.rmtree(folder.parent, ignore_errors=True)
                with contextlib.suppress(OSError):
                    folder.parents[1].rmdir()  # unless other sessions use it
    except _Gone:
        return  # the session is gone: the lease is not needed


class _Gone(Exception):
    pass


class _NoTurnsError(Exception):
    pass


def _waiting(holder: str) -> None:
    send("W", {"holder": holder})


def _check(pipe: Pipe) -> None:
    pipe.look(0)
    if pipe.gone:
        raise _Gone
