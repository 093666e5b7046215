"""Program that runs one launch on several nodes, over a channel to each.

Standard library only. It is the command of a supervisor, so its channels end even if pytest is
killed. The nodes' output is printed in whole lines, with the node's name in front except for the
first node. ``nodes.json`` says how each node ended. When one node fails, all others are ended at
once, since launchers wait for each other for minutes.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import tarfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Final

if __name__ == "__main__":  # run by its path, in isolated mode
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from pytest_dlperf.launch.remote.channel import Channel, as_exit_code, pump, reach_from_json
from pytest_dlperf.launch.remote.messages import (
    Command,
    CommandEnd,
    ConductorSettings,
    NodeEnd,
    NodeLaunch,
    NodesReport,
    TurnsAsked,
)
from pytest_dlperf.launch.turns.freezer import CHANNEL_NAME, set_name
from pytest_dlperf.launch.turns.lines import FREEZE, FROZEN, MOVING, THAW, Lines, Standing, parse

_POLL_S: Final = 0.2
#: From closing the pipes to killing the channels: the far end first terminates, then kills.
_ENDING_S: Final = 12.0
#: A longer line is printed in pieces.
_LINE_BYTES: Final = 1 << 18
#: Time to send the records of a node that shares no files.
_COLLECTING_S: Final = 60.0
#: Time after the first failure in which the other nodes can still print error messages.
_LAST_WORDS_S: Final = 1.0


class Node:
    """One node of the launch."""

    def __init__(self, rank: int, values: NodeLaunch, workdir: Path) -> None:
        self.rank = rank
        self.values = values
        self.workdir = workdir
        self.channel = Channel(reach_from_json(values["reach"]))
        self._line = b""
        self._archive: IO[bytes] | None = None
        #: Whether its channel was lost before all commands had ended.
        self.was_lost = False
        #: Whether the launch was asked to end before that, which ends channels as well.
        self.was_asked = False

    @property
    def has_command(self) -> bool:
        """Whether it gets a command; if not, a launcher on another node starts its ranks."""
        return bool(self.values["run"]["argv"])

    @property
    def is_done(self) -> bool:
        """Whether its command has ended, or its channel has."""
        return self.channel.end is not None or self.channel.is_over

    @property
    def is_bad(self) -> bool:
        """Whether its command failed, or its channel was lost."""
        end = self.channel.end
        if end is None:
            return self.channel.is_lost
        return bool(end["end"] != "exited" or end["exit_code"] != 0)

    def take(self, kind: str, data: bytes) -> None:
        """Handle a frame: print output in whole lines, store the archive."""
        if kind == "O":
            head, found, tail = data.rpartition(b"\n")
            if found:
                self._print((self._line + head).split(b"\n"))
                self._line = b""
            self._line += tail
            if len(self._line) > _LINE_BYTES:
                self._print([self._line])
                self._line = b""
        elif kind == "T":
            if self._archive is None:
                self._archive = (self.workdir / f"node{self.rank}.tar").open("wb")
            self._archive.write(data)

    def _print(self, lines: list[bytes]) -> None:
        # Without a name in front: log formats are read from the first rank, on the first node.
        prefix = f"{self.channel.name}: ".encode() if self.rank else b""
        sys.stdout.buffer.write(b"".join(prefix + line + b"\n" for line in lines))
        sys.stdout.buffer.flush()

    def finish(self) -> NodeEnd:
        """Unpack the node's archive, and return how the node ended."""
        if self._line:
            self._print([self._line])
        if self._archive is not None:
            self._archive.close()
            path = Path(self._archive.name)
            unpack(path, self.workdir)
            path.unlink()
        return {**(self.channel.end or self._without_end()), "node": self.channel.name}

    def _without_end(self) -> CommandEnd:
        if not self.has_command and self.channel.hello and not self.was_lost:
            return {"exit_code": 0, "end": "exited", "killed": 0}
        if self.was_asked:
            return {"exit_code": None, "end": "asked-to-end"}
        return {
            "exit_code": None,
            "end": "lost" if self.channel.hello else "not-reached",
            "message": self.channel.last_output,
            "silent_s": self.channel.over_s - self.channel.heard_s,
        }


def unpack(archive: Path, workdir: Path) -> None:
    """Unpack the files of a node's run into ``workdir``; keep files that exist there."""
    with tarfile.open(archive) as files:
        try:
            for member in files:
                target = (workdir / member.name).resolve()
                inside = target.is_relative_to(workdir.resolve())
                if member.isfile() and inside and not target.exists():
                    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                    content = files.extractfile(member)
                    assert content is not None
                    target.write_bytes(content.read())
        except tarfile.ReadError as error:
            sys.stdout.write(f"the records of a node arrived incomplete: {error}\n")


def main(argv: list[str]) -> int:
    """Run the launch that the file ``argv[0]`` describes; return its exit code."""
    path = Path(argv[0])
    settings: ConductorSettings = json.loads(path.read_text(encoding="utf-8"))
    path.unlink()  # it holds values of environment variables
    set_name(CHANNEL_NAME)
    asked: list[int] = []
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda received, _frame: asked.append(received))
    nodes = [Node(rank, values, path.parent) for rank, values in enumerate(settings["nodes"])]
    channels = [node.channel for node in nodes]
    started_s = time.monotonic()
    for node in nodes:
        # Processes of an earlier launch of this run may have lost their supervisor.
        clear = str(path.parent) if node.values["reach"]["argv"] else ""
        node.channel.begin(settings["nonce"], node.values["run"]["meet_at"], clear=clear)
    end = _greet(channels, started_s + settings["connect_timeout_s"], asked)
    if not end:
        _start(nodes, settings["timeout_s"], settings["turns"])
        ranks = settings["turns"]["ranks"] if settings["turns"] is not None else 0
        turns = TurnsOfNodes(nodes, settings["referee"], ranks)
        end = _until_one_ends_badly(nodes, started_s + settings["timeout_s"], asked, turns)
        turns.end()
    with_command = [node for node in nodes if node.has_command]
    _end_all(with_command, last_words_s=0.0 if end == "exited" else _LAST_WORDS_S)
    without_command = [node for node in nodes if not node.has_command]
    if not asked:
        _collect(without_command)
    _end_all(without_command, last_words_s=0.0)
    report: NodesReport = {"end": end, "nodes": [node.finish() for node in nodes]}
    bad = [
        node_end
        for node_end in report["nodes"]
        if node_end["end"] != "exited" or node_end["exit_code"] != 0
    ]
    partial = path.with_name("nodes.json.partial")
    partial.write_text(json.dumps(report), encoding="utf-8")
    partial.replace(path.with_name("nodes.json"))
    codes = [node_end["exit_code"] for node_end in bad if node_end["exit_code"]]
    return as_exit_code(codes[0]) if codes else int(bool(bad) or end != "exited")


def _greet(channels: list[Channel], deadline_s: float, asked: list[int]) -> str:
    """Wait until every node has answered; return the reason if one does not, else nothing."""
    while any(channel.hello is None for channel in channels):
        pump(channels, _POLL_S)
        if asked:
            return "asked-to-end"
        if any(c.is_over and c.hello is None for c in channels) or time.monotonic() > deadline_s:
            return "not-reached"
    return ""


class TurnsOfNodes:
    """Passes on what the referee of a pair and the nodes of this launch tell each other.

    They are frozen when all nodes are, so that each of these is one answer.
    """

    def __init__(self, nodes: list[Node], referee: int | None, ranks: int) -> None:
        self._nodes = nodes
        self._ranks = ranks
        self._referee = Lines(referee) if referee is not None else None
        self._freezing: set[int] = set()
        self._moving = ""

    @property
    def sockets(self) -> list[Lines]:
        """What to wait for beside the channels."""
        return [self._referee] if self._referee is not None and not self._referee.is_over else []

    def take(self) -> None:
        """Pass on what the referee has sent."""
        assert self._referee is not None
        for line in self._referee.take():
            if line == FREEZE:
                self._freezing, self._moving = {node.rank for node in self._nodes}, ""
            for node in self._nodes:
                node.channel.send({"kind": "turn", "line": line})

    def answer(self, node: Node, line: str) -> None:
        """Pass on what a node has answered, or one of its ranks reported.

        Raises ``ValueError`` for what is neither.
        """
        said = parse(line, self._ranks)
        if self._referee is None:
            raise ValueError(f"{line[:80]!r} without a referee")
        if not isinstance(said, Standing):
            self._referee.send(line)
            return
        self._freezing.discard(node.rank)
        if said.moving:
            self._moving = f"{node.channel.name}: {said.moving}"
        if not self._freezing:
            self._referee.send(f"{MOVING} {self._moving}" if self._moving else f"{FROZEN} {{}}")

    def end(self) -> None:
        """Let all go on: the ranks of a node without a command end with those of the first."""
        for node in self._nodes if self._referee is not None else ():
            if not node.has_command and not node.is_done:
                node.channel.send({"kind": "turn", "line": THAW})


def _start(nodes: list[Node], timeout_s: float, turns: TurnsAsked | None) -> None:
    first = nodes[0].channel.hello
    assert first is not None
    # First what the launcher's ranks on other nodes meet there
    for node in sorted(nodes, key=lambda node: node.has_command):
        if not node.has_command:
            if turns is not None:
                workdir = str(node.workdir)
                node.channel.send({"kind": "turns", "workdir": workdir, "turns": turns})
            continue
        assert node.channel.hello is not None
        places = {
            "${MASTER_PORT}": str(first["port"]),
            "${MASTER_IP}": first["address"],
            "${NODE_IP}": node.channel.hello["address"],
            "${NETWORK}": first["network"],
            "${INTERFACE}": first["interface"],
        }
        command: Command = fill_in(node.values["run"], places)
        node.channel.send(
            {
                **command,
                "kind": "run",
                "workdir": str(node.workdir),
                "turns": turns,
                # A little longer than here, so that this end reports the timeout.
                "timeout_s": timeout_s + _ENDING_S,
                "send_back": not node.channel.hello["sees"],
            }
        )


def fill_in(value: Any, places: Mapping[str, str]) -> Any:
    """Return a value of JSON with the placeholders in its texts filled in."""
    if isinstance(value, str):
        for name, place in places.items():
            value = value.replace(name, place)
        return value
    if isinstance(value, Mapping):
        return {key: fill_in(item, places) for key, item in value.items()}
    if isinstance(value, list):
        return [fill_in(item, places) for item in value]
    return value


def _collect(nodes: list[Node]) -> None:
    """Fetch the records of nodes that share no files and whose ranks a launcher started."""
    for node in nodes:
        hello = node.channel.hello
        if hello is not None and not hello["sees"]:
            node.channel.send(
                {
                    "kind": "collect",
                    "workdir": str(node.workdir),
                    "files": list(node.values["run"]["files"]),
                }
            )
    begin_s = time.monotonic()
    asked = [node for node in nodes if node.channel.hello and not node.channel.hello["sees"]]
    while not all(node.is_done for node in asked):
        if time.monotonic() - begin_s > _COLLECTING_S:
            return
        _take_all(nodes)


def _take_all(nodes: list[Node]) -> None:
    living = [node for node in nodes if not node.channel.is_over]
    for channel, kind, data in pump([node.channel for node in living], _POLL_S):
        next(node for node in living if node.channel is channel).take(kind, data)


def _until_one_ends_badly(
    nodes: list[Node], deadline_s: float, asked: list[int], turns: TurnsOfNodes
) -> str:
    channels = [node.channel for node in nodes]
    by_channel = {id(node.channel): node for node in nodes}
    commanded = [node for node in nodes if node.has_command]
    while not all(node.is_done for node in commanded):
        living = [channel for channel in channels if not channel.is_over]
        for channel, kind, data in pump(living, _POLL_S, wake=turns.sockets):
            node = by_channel[id(channel)]
            node.take(kind, data)
            if kind == "R":
                try:
                    turns.answer(node, data.decode())
                except ValueError as error:
                    node.channel.refuse(error)
        for _ in select.select(turns.sockets, [], [], 0)[0]:
            turns.take()
        for node in nodes:
            node.was_asked = bool(asked) and not node.was_lost
            node.was_lost = node.channel.is_lost and not node.was_asked
        if asked:
            return "asked-to-end"
        if time.monotonic() > deadline_s:
            return "timeout"
        if any(node.is_bad for node in nodes):
            return "failed"
    return "failed" if any(node.is_bad for node in nodes) else "exited"


def _end_all(nodes: list[Node], *, last_words_s: float) -> None:
    """Close the pipes after ``last_words_s``, print what still comes, then kill the channels.

    Until then ranks can print how they noticed that another one ended.
    """
    begin_s = time.monotonic()
    while not all(node.channel.is_over for node in nodes):
        passed_s = time.monotonic() - begin_s
        if passed_s >= last_words_s:
            for node in nodes:
                node.channel.close()
        if passed_s > _ENDING_S:
            break
        _take_all(nodes)
    for node in nodes:
        node.channel.kill()


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)
