"""What the two ends of a channel send each other, and the files that describe such a launch.

Each is JSON, and defined once: both sides import it, so that mypy finds a key that only one side
changed. Standard library only, and Python 3.10: it is sent with the far end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from typing import TypeAlias


class Nonce(TypedDict):
    """A file by which a node finds out if it shares files with the host that wrote it."""

    path: str
    text: str


class Greeting(TypedDict):
    """The first message to a far end, which answers with a ``Hello``."""

    nonce: Nonce
    #: The first node of the launch: by which network the node reaches it.
    meet_at: str
    #: Folder of a run whose processes are killed first; empty for none.
    clear: str


class Hello(TypedDict):
    """Frame ``H``: what a node is."""

    #: ``network.identity``, which does not depend on the name that the node is reached by.
    host: str
    #: Its clock.
    time: float
    #: A free one.
    port: int
    #: By which it reaches the first node of the launch; empty if unknown.
    address: str
    interface: str
    #: That of the address, as ``10.0.0.0/24``.
    network: str
    #: Whether it shares files with the host that greeted it.
    sees: bool


class HelloReceived(Hello):
    """A ``Hello``, and when it came."""

    #: The clock of the host that received it.
    here: float


class Surroundings(TypedDict):
    """What every command of a launch gets on its node."""

    env: Mapping[str, str]
    #: Folder in which it starts; empty for the run's folder.
    cwd: str
    #: Words before the command, which may start a container.
    prefix: list[str]
    #: Text of each file that is written into the run's folder first.
    files: Mapping[str, str]
    #: The node whose network the interface is of; empty for none.
    meet_at: str
    #: Variables that are set to this interface, unless ``env`` has them.
    interface_variables: list[str]


class Command(Surroundings):
    """A command for a node."""

    #: Empty for a node whose ranks a launcher on another node starts.
    argv: list[str]


class TurnsAsked(TypedDict):
    """Give ranks their turns, as lines of ``launch/turns/lines.py`` say; frames ``R`` answer."""

    #: Folder of the ranks' records.
    records: str
    ranks: int


class TurnLine(TypedDict):
    """A line from the referee of a pair, while a run goes on."""

    kind: Literal["turn"]
    line: str


class TurnsRequest(TypedDict):
    """Give turns to ranks that a launcher on another node starts here, until more is asked for."""

    kind: Literal["turns"]
    #: Folder of the run.
    workdir: str
    turns: TurnsAsked


class RunRequest(Command):
    """Run a command to its end, which a ``CommandEnd`` reports."""

    kind: Literal["run"]
    #: None where its ranks take no turns.
    turns: TurnsAsked | None
    #: Folder of the run.
    workdir: str
    timeout_s: float
    #: Whether the files of the run are sent back, and removed there.
    send_back: bool


class CollectRequest(TypedDict):
    """Send the files of a run back, and remove them there."""

    kind: Literal["collect"]
    workdir: str
    #: Names of those that are not sent back.
    files: list[str]


class KeepRequest(TypedDict):
    """Hold a node for a case until the channel ends."""

    kind: Literal["keep"]
    #: The id of the case.
    case: str
    #: Whether the node's lease is taken.
    lease: bool
    #: Folders of the case's runs, whose processes are gone before the lease is given back.
    runs: list[str]
    #: The package for the node's ranks, an archive in base64; empty where files are shared.
    package: str
    #: Where the package is put.
    folder: str


#: What a far end is asked to do: the second message to it. After one of turns comes a last one.
Request: TypeAlias = "RunRequest | TurnsRequest | CollectRequest | KeepRequest"


class LeaseWait(TypedDict):
    """Frame ``W``: another session has the node's lease."""

    holder: str


class LeaseHeld(TypedDict):
    """Frame ``L``: the node is ready, and its lease held where one was asked for."""


class _AnyEnd(TypedDict):
    #: None if the command did not start, or did not end by itself.
    exit_code: int | None
    #: The reason, such as ``exited`` or ``timeout``.
    end: str


class CommandEnd(_AnyEnd, total=False):
    """Frame ``E``: how a request ended. The conductor makes one for a node that sent none."""

    #: Why a command did not start.
    message: str
    #: Processes that lived when the command was ended.
    alive: list[int]
    #: Host name and PID namespace of ``alive``.
    where: str
    #: How many processes had to be killed.
    killed: int
    #: Those that even SIGKILL did not end.
    unkilled: list[int]
    #: From the conductor alone: seconds from when the node was heard last to its channel's end.
    silent_s: float


class NodeEnd(CommandEnd):
    """How one node of a launch ended."""

    #: The name that it is reached by.
    node: str


class NodesReport(TypedDict):
    """How a launch over channels ended: ``nodes.json`` in the run's folder."""

    end: str
    nodes: list[NodeEnd]


class ReachRecord(TypedDict):
    """A ``Reach``."""

    name: str
    argv: list[str]
    shell: bool
    python: str


class NodeLaunch(TypedDict):
    """One node of a launch, and its command."""

    reach: ReachRecord
    run: Command


class _Greeted(TypedDict):
    nonce: Nonce
    #: Time in which every node must answer.
    connect_timeout_s: float
    timeout_s: float


class ConductorSettings(_Greeted):
    """A launch over channels: ``launch.json`` in the run's folder."""

    nodes: list[NodeLaunch]
    turns: TurnsAsked | None
    #: Descriptor of the socket to the referee of the pair; None without turns.
    referee: int | None


class ShellSettings(_Greeted):
    """What the remote shell of a launcher needs: ``rsh.json`` in the run's folder."""

    #: By host name.
    reaches: dict[str, ReachRecord]
    run: Surroundings
