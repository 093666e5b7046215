"""Extends a launch plan to several hosts: their commands, the conductor's file, how nodes end."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from pytest_dlperf.core.place import Host
from pytest_dlperf.core.run import EndReason, LaunchPlan, NodePlan, RunEnd
from pytest_dlperf.launch.remote import conductor, rsh_agent
from pytest_dlperf.launch.remote.channel import reach_to_json
from pytest_dlperf.launch.remote.messages import (
    ConductorSettings,
    NodeEnd,
    NodesReport,
    Nonce,
    ReachRecord,
    ShellSettings,
)
from pytest_dlperf.launch.remote.rsh_agent import SHELL
from pytest_dlperf.launch.remote.sent_to_hosts import ENVIRONMENT_FILE, program_in_copy
from pytest_dlperf.launch.remote.transport import Transport
from pytest_dlperf.launch.turns.lines import Turns

#: Where the ranks meet on the first node, unless the launcher finds a port itself.
_DEFAULT_PORT: Final = 29500
#: Time in which every node must answer.
CONNECT_TIMEOUT_S: Final = 30.0
#: The supervisor waits so much longer than the plan: the conductor reports the timeout itself.
LONGER_S: Final = 30.0
#: Variables set to the node's interface to the others, unless the user sets them: by default
#: libraries take the interface of the host's own name, which may be the loopback.
_INTERFACE_VARIABLES: Final = ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
_SETTINGS: Final = "rsh.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class RemoteHosts:
    """The hosts of a launch, how they are reached, and what the ranks find there."""

    hosts: tuple[Host, ...]
    transport: Transport
    #: Put before the commands that a launcher starts through its remote shell.
    prefix: tuple[str, ...]
    #: Folder of this package's copy.
    package_folder: Path
    #: Text of each file that is written into the run's folder on every host.
    files: dict[str, str]


def over_hosts(plan: LaunchPlan, remote: RemoteHosts) -> LaunchPlan:
    """Return ``plan`` such that it runs on the hosts of ``remote``.

    A launcher that starts ranks on other hosts itself gets a remote shell that uses channels.
    """
    hosts, files = remote.hosts, remote.files
    commands = commands_on(hosts, plan, fill_port=False)
    env = {name: text.replace("${MASTER_ADDR}", hosts[0].name) for name, text in plan.env.items()}
    if len(commands) < len(hosts):
        files = _remote_shell(plan, env, remote)
    commanded = {host.name: argv for host, argv in commands}
    return replace(
        plan,
        nodes=tuple(
            NodePlan(
                reach=remote.transport.reach(host.name),
                # Empty for hosts whose ranks a launcher starts: they only get a channel.
                argv=commanded.get(host.name, ()),
                env=env,
                files=files,
            )
            for host in hosts
        ),
    )


def _remote_shell(plan: LaunchPlan, env: dict[str, str], remote: RemoteHosts) -> dict[str, str]:
    """Return the files that give a launcher its remote shell: named ``ssh``, first on its PATH."""
    agent = program_in_copy(remote.package_folder, rsh_agent)
    path = Path(plan.workdir) / _SETTINGS
    words = (remote.transport.python, "-I", str(agent), str(path))
    settings: ShellSettings = {
        "nonce": nonce_of(Path(plan.workdir)),
        "connect_timeout_s": CONNECT_TIMEOUT_S,
        "timeout_s": plan.timeout_s + LONGER_S,
        "reaches": {h.name: reach_to_json(remote.transport.away(h.name)) for h in remote.hosts},
        "run": {
            "env": env,
            "cwd": plan.cwd,
            "prefix": list(remote.prefix),
            "files": remote.files,
            "meet_at": remote.hosts[0].name,
            "interface_variables": list(_INTERFACE_VARIABLES),
        },
    }
    return {
        **remote.files,
        SHELL: f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n',
        _SETTINGS: json.dumps(settings),
    }


def commands_on(
    hosts: Sequence[Host], plan: LaunchPlan, *, fill_port: bool = True
) -> list[tuple[Host, tuple[str, ...]]]:
    """Return each command of ``plan`` with the host that it is started on.

    A launcher of one node's ranks is started on every host, with the host's number; one that
    starts the ranks of all nodes is started on the first host only. Without ``fill_port`` the port
    where ranks meet stays a placeholder, since the first node finds a free one.
    """
    names = ",".join(f"{host.name}:{host.devices}" for host in hosts)
    commands = []
    for rank, host in enumerate(hosts[:1] if plan.starts_all_nodes else hosts):
        values = {
            "${NODE_RANK}": str(rank),
            "${MASTER_ADDR}": hosts[0].name,
            "${HOSTS}": names,
            **(
                {"${MASTER_PORT}": str(_DEFAULT_PORT), "${NETWORK}": "0.0.0.0/0"}
                if fill_port
                else {}
            ),
        }
        words = plan.argv
        for placeholder, value in values.items():
            words = tuple(word.replace(placeholder, value) for word in words)
        commands.append((host, words))
    return commands


def nonce_of(folder: Path) -> Nonce:
    """Return path and random text of the file by which a node finds out if it sees ``folder``."""
    path = folder / "seen"
    try:
        return {"path": str(path), "text": path.read_text(encoding="ascii")}
    except OSError:
        return {"path": str(path), "text": secrets.token_hex(16)}


def write_nonce(nonce: Nonce) -> None:
    """Write the file of ``nonce_of``."""
    Path(nonce["path"]).write_text(nonce["text"], encoding="ascii")


def command_over_hosts(plan: LaunchPlan, turns: Turns | None = None) -> tuple[str, ...]:
    """Write the conductor's file for ``plan`` into its folder; return the conductor's command.

    Its ranks take ``turns`` with those of another launch.

    The file holds environment variables: only its owner may read it, and the conductor removes it.
    """
    workdir = Path(plan.workdir)
    shells: list[ShellSettings] = [
        json.loads(node.files[_SETTINGS]) for node in plan.nodes if _SETTINGS in node.files
    ]
    nonce = shells[0]["nonce"] if shells else nonce_of(workdir)
    write_nonce(nonce)
    names = [node.reach.name for node in plan.nodes]
    settings: ConductorSettings = {
        "nonce": nonce,
        "connect_timeout_s": CONNECT_TIMEOUT_S,
        "timeout_s": plan.timeout_s,
        "turns": None if turns is None else {"records": plan.records, "ranks": turns.ranks},
        "referee": None if turns is None else turns.referee,
        "nodes": [
            {
                "reach": _here(reach_to_json(node.reach)),
                "run": {
                    "argv": list(node.argv),
                    "env": node.env,
                    "cwd": plan.cwd,
                    "prefix": [],
                    "files": node.files,
                    # The first looks at another: its own name may resolve to the loopback.
                    "meet_at": names[0] if rank or len(names) == 1 else names[1],
                    "interface_variables": list(_INTERFACE_VARIABLES),
                },
            }
            for rank, node in enumerate(plan.nodes)
        ],
    }
    path = workdir / "launch.json"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(settings, file)
    return (sys.executable, "-I", conductor.__file__, str(path))


def _here(reach: ReachRecord) -> ReachRecord:
    """Use this interpreter for the far end on this host: the ranks' may be in a container."""
    return reach if reach["argv"] else {**reach, "python": sys.executable}


def remove_settings(workdir: Path) -> None:
    """Remove the files that may hold environment variables; needed if a launch was killed."""
    for name in ("launch.json", _SETTINGS, ENVIRONMENT_FILE):
        (workdir / name).unlink(missing_ok=True)


class NodesEnd(NamedTuple):
    """How the nodes of a launch ended."""

    timed_out: bool = False
    #: How the launch ended by a node's failure, rather than by a rank's; None where none failed.
    end: RunEnd | None = None
    #: Processes that lived when the launch was ended, by host name and PID namespace.
    alive: Mapping[str, frozenset[int]] = {}


def how_nodes_ended(workdir: Path) -> NodesEnd:
    """Return how the nodes ended, from the conductor's ``nodes.json``; empty for one host."""
    path = workdir / "nodes.json"
    if not path.exists():
        return NodesEnd()
    report: NodesReport = json.loads(path.read_text(encoding="utf-8"))
    failed = [end for node in report["nodes"] if (end := _end_of(node, report["end"]))]
    return NodesEnd(
        timed_out=report["end"] == "timeout",
        end=_joined(failed) if failed else None,
        alive={
            node["where"]: frozenset(node["alive"]) for node in report["nodes"] if "alive" in node
        },
    )


def _end_of(node: NodeEnd, launch_end: str) -> RunEnd | None:
    """Return how the failure of ``node`` ended the launch; None if it did not fail."""
    name = node["node"]
    output = f": {node['message']}" if node.get("message") else ""
    if node["end"] == "not-reached" and launch_end == "not-reached":
        words = f"{name} cannot be reached{output or ': it gave no answer'}"
        return RunEnd(reason=EndReason.NODE_GONE, message=words)
    if node["end"] == "lost":
        words = f"{name} was lost, {node['silent_s']:.0f} s after it was heard last{output}"
        return RunEnd(reason=EndReason.NODE_GONE, message=words)
    if node["end"] == "not-started":
        words = f"{name} could not start the launcher{output}"
        return RunEnd(reason=EndReason.NODE_NOT_STARTED, message=words)
    if node["end"] == "no-turns":
        return RunEnd(reason=EndReason.NO_TURNS, message=f"{name}{output}")
    return None


def _joined(ends: Sequence[RunEnd]) -> RunEnd:
    """Return the ends of several nodes as one; a node that is gone explains the others."""
    reasons = {end.reason for end in ends}
    return RunEnd(
        reason=EndReason.NODE_GONE if EndReason.NODE_GONE in reasons else ends[0].reason,
        message="; ".join(end.message for end in ends),
    )
